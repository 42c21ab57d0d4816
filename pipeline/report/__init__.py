"""Show what others computed: figures, words and one HTML file."""

import sys

# jsonschema, which nbformat imports, would build a grammar of internationalised addresses: a format that no notebook's
# schema names, and more seconds than papermill and nbconvert together. Without this package it leaves that out.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # None: Python finds no such module
