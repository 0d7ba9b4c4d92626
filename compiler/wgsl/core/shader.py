"""A WGSL module under construction: its bindings in order, then its lines."""

from __future__ import annotations

from collections.abc import Iterable

from nnjit_studio.compiler.wgsl.core.document import Dispatch


class Shader:
    """Collects the bindings and workgroup variables of one entry point.

    Attributes
    ----------
    bindings, access
        As a :class:`Dispatch` wants them, in the order of :meth:`bind`.
    """

    def __init__(self, enables: Iterable[str] = ()) -> None:
        self._head = [f"enable {name};" for name in enables]
        self.bindings: list[str] = []
        self.access: list[str] = []

    def bind(self, buffer: str, variable: str, type_: str, access: str = "read") -> None:
        """Let ``variable`` of a WGSL type stand for a buffer's elements."""
        at = f"@group(0) @binding({len(self.bindings)})"
        self._head.append(f"{at} var<storage, {access}> {variable}: {type_};")
        self.bindings.append(buffer)
        self.access.append(access)

    def workgroup(self, variable: str, type_: str) -> None:
        """A variable in workgroup memory."""
        self._head.append(f"var<workgroup> {variable}: {type_};")

    def line(self, text: str) -> None:
        """Something else of the module: a constant, a function."""
        self._head.append(text)

    def dispatch(
        self,
        threads: int,
        workgroups: tuple[int, int, int],
        body: Iterable[str],
        builtins: str = "",
    ) -> Dispatch:
        """The finished dispatch; the body sees ``wg`` (workgroup) and ``li`` (thread in it)."""
        head = [
            *self._head,
            f"@compute @workgroup_size({threads})",
            "fn main(@builtin(workgroup_id) wg: vec3<u32>, "
            f"@builtin(local_invocation_index) li: u32{builtins}) {{",
        ]
        code = "\n".join((*head, *(f"  {line}" for line in body), "}")) + "\n"
        return Dispatch(code, workgroups, tuple(self.bindings), tuple(self.access))
