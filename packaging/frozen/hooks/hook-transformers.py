"""PyInstaller: transformers with its source, which it reads to find out what each of its modules offers."""

from PyInstaller.utils.hooks import copy_metadata

# It asks for the versions of what it needs, and these for those of what they need.
datas = copy_metadata("transformers", recursive=True)
module_collection_mode = "pyz+py"
