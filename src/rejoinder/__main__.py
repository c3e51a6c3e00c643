"""`python -m rejoinder`, which is also what `torchrun -m rejoinder` starts."""

from __future__ import annotations

from rejoinder.cli.start import main

if __name__ == "__main__":
    main()
