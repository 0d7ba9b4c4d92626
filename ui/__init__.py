if __name__ != "nnjit_studio.ui":
    raise ImportError("import nnjit_studio.ui, not ui")

from nnjit_studio.ui.startup.immortal_constants import hold_constants

hold_constants()
