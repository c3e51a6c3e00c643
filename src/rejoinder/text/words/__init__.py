"""Words: English ones, those of an index, their forms, their typos."""
