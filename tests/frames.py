"""A table as pandas has it, for tests that need no pandas: a collection of the names of its columns."""


class DataFrame:
    def __init__(self, columns):
        self._columns = columns
        self.iloc = None

    @property
    def columns(self):
        return list(self._columns)

    def __len__(self):
        return len(next(iter(self._columns.values())))

    def __iter__(self):
        return iter(self._columns)

    def __contains__(self, name):
        return name in self._columns

    def __getitem__(self, name):
        return self._columns[name]
