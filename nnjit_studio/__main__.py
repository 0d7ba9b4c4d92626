"""``python -m nnjit_studio``: the same program as ``nnjit``."""

from nnjit_studio.entry import main

if __name__ == "__main__":
    main()
