if __name__ != "nnjit_studio.ui":
    raise ImportError("import nnjit_studio.ui, not ui")

from nnjit_studio.ui.singletons import hold_constants

hold_constants()

# Shiboken walks over sys.modules when it is loaded: it aborts the program where another thread
# imports something meanwhile, such as the hub its WebSockets. So before any thread is started.
import PySide6.QtCore  # noqa: E402, F401
