"""Models of any size: probed at sample sizes, imported at some, unified into one program."""
