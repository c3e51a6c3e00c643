"""Raw data to a folder of examples, by stages."""
