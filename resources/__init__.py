if __name__ != "nnjit_studio.resources":
    raise ImportError("import nnjit_studio.resources, not resources")
