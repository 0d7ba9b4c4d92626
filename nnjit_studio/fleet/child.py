"""A verb that ends with the worker that started it: ``python -m nnjit_studio.fleet.child VERB ..``.

The worker holds the other end of standard input; a worker that is killed closes it too.
"""

from __future__ import annotations

import os
import threading

from nnjit_studio.entry import main


def _end_with_the_worker() -> None:
    while os.read(0, 1):  # no buffer, whose lock the end of the program would wait for
        pass
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_worker, daemon=True).start()
    main()
