"""The module between the table of a rewritten module and the page's functions.

A table takes Wasm functions alone. The one before a nest asks ``enter``; where that answers 3 it
calls ``wait``, which may suspend or block, and gives its answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnjit_studio.foreign_wasm.offload.detect import Found
from nnjit_studio.foreign_wasm.offload.rewrite import F32, I32, RESULT_SLOT, parameters, slots
from nnjit_studio.wasm_file import leb
from nnjit_studio.wasm_file.sections import function_type, module_of, sized, text

WAIT = 3
SPACE = "nnjit"
_FUNCTION = b"\x00"


def hooks(nests: Sequence[Found]) -> bytes:
    """The module, which imports ``wait``, ``result``, ``enterN``, ``leaveN`` and exports slots."""
    types: list[bytes] = [function_type(b"", I32), function_type(I32, F32)]
    imports = [_import("wait", 0), _import("result", 1)]
    functions, codes = [], []
    first = 2 + 2 * len(nests)
    exports = [_export(str(RESULT_SLOT), 1)]
    for number, found in enumerate(nests):
        given, told = parameters(found)
        types += [function_type(given, I32), function_type(told, b"")]
        before, after = len(types) - 2, len(types) - 1
        enter, leave = len(imports), len(imports) + 1
        imports += [_import(f"enter{number}", before), _import(f"leave{number}", after)]
        functions.append(leb.unsigned(before))
        codes.append(_before(len(given), enter))
        exports.append(_export(str(slots(number).before), first + number))
        exports.append(_export(str(slots(number).after), leave))
    return module_of(
        {"type": types, "import": imports, "function": functions, "export": exports, "code": codes}
    )


def _before(params: int, enter: int) -> bytes:
    """Passes the parameters on, and waits where it is told to."""
    mode = leb.unsigned(params)
    given = b"".join(b"\x20" + leb.unsigned(i) for i in range(params))
    body = (
        b"\x01\x01\x7f" + given + b"\x10" + leb.unsigned(enter) + b"\x22" + mode
        + bytes([0x41, WAIT, 0x46, 0x04, 0x7F, 0x10, 0, 0x05, 0x20]) + mode + b"\x0b\x0b"
    )  # fmt: skip
    return sized(body)


def _import(name: str, type_: int) -> bytes:
    return text(SPACE) + text(name) + _FUNCTION + leb.unsigned(type_)


def _export(name: str, index: int) -> bytes:
    return text(name) + _FUNCTION + leb.unsigned(index)
