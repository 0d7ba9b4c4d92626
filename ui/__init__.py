if __name__ != "nnjit_studio.ui":
    raise ImportError("import nnjit_studio.ui, not ui")
