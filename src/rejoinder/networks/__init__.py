"""The models of the papers, each file reading like its section."""
