if __name__ != "nnjit_studio.compiler":
    raise ImportError("import nnjit_studio.compiler, not compiler")
