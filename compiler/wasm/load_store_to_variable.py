"""Pass ``load_store_to_variable``: values just written or read are kept in locals (paper, 4.3 (3)).

Two rewrites. Repeated loads of one address within a straight line, without a
store to that buffer between them, read a local. A ``local.set`` whose value
is the first thing that the next statement reads becomes a ``local.tee`` there,
or the bare value when nobody reads it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from nnjit_studio.compiler.wasm.ir import (
    Const,
    Function,
    IfElse,
    Load,
    LocalGet,
    LocalSet,
    LocalTee,
    Loop,
    Node,
    Op,
    Store,
    rebuild,
)

_Key = tuple[object, ...]


def load_store_to_variable(function: Function) -> None:
    """Apply both rewrites to a function."""
    keys = list(_Keys().block(function.body))
    counts = Counter(key for key in keys if key is not None)
    if any(count > 1 for count in counts.values()):
        function.body = _share(function, keys, counts)
    reads: Counter[int] = Counter()
    for node in function.body:
        _count_reads(node, reads)
    function.body = _tee_block(function.body, reads)


class _Keys:
    """Walks in order of evaluation; yields for every plain load what decides its value."""

    def __init__(self) -> None:
        self._local_version: Counter[int] = Counter()
        self._buffer_version: Counter[str] = Counter()
        self._region = 0
        self._regions = 0

    def block(self, nodes: Sequence[Node]) -> Iterator[_Key | None]:
        for node in nodes:
            yield from self.node(node)

    def _inner(self, nodes: Sequence[Node]) -> Iterator[_Key | None]:
        outer = self._region
        self._regions += 1
        self._region = self._regions
        yield from self.block(nodes)
        self._region = outer

    def node(self, node: Node) -> Iterator[_Key | None]:
        kind = type(node)
        if kind is LocalGet or kind is Const:
            return
        if isinstance(node, Op):
            for arg in node.args:
                if type(arg) is not LocalGet:
                    yield from self.node(arg)
        elif isinstance(node, (LocalSet, LocalTee)):
            yield from self.node(node.value)
            self._local_version[node.local] += 1
        elif isinstance(node, Load):
            yield from self.node(node.address)
            if node.vector is not None:
                yield from self.node(node.vector)
                yield None
            else:
                yield self._key(node)
        elif isinstance(node, Store):
            yield from self.node(node.address)
            yield from self.node(node.value)
            self._buffer_version[node.buffer] += 1
        elif isinstance(node, IfElse):
            yield from self.node(node.condition)
            yield from self._inner(node.then)
            yield from self._inner(node.otherwise)
        else:
            assert isinstance(node, Loop)
            yield from self._inner([*node.body, node.condition])

    def _key(self, load: Load) -> _Key | None:
        address, offset = load.address, load.offset
        if isinstance(address, Op) and address.name == "i32.add":
            constant = address.args[1]
            if isinstance(constant, Const):
                address, offset = address.args[0], offset + int(constant.value)  # same address
        if not isinstance(address, LocalGet):
            return None
        versions = self._local_version[address.local], self._buffer_version[load.buffer]
        return (load.op, address.local, offset, load.buffer, *versions, self._region)


def _share(function: Function, keys: Sequence[_Key | None], counts: Counter[_Key]) -> list[Node]:
    upcoming = iter(keys)
    locals: dict[_Key, int] = {}

    def visit(node: Node) -> Node:
        if type(node) is LocalGet or type(node) is Const:
            return node
        if not isinstance(node, Load):
            return rebuild(node, visit)
        node = rebuild(node, visit)
        key = next(upcoming)
        if key is None or counts[key] == 1:
            return node
        if key in locals:
            return LocalGet(locals[key])
        assert isinstance(node, Load)
        kind = node.op.split(".")[0]
        locals[key] = function.new_local(kind, node.buffer)
        return LocalTee(locals[key], node)

    return [visit(node) for node in function.body]


def _count_reads(node: Node, reads: Counter[int]) -> None:
    if type(node) is LocalGet:
        reads[node.local] += 1
    elif isinstance(node, Op):
        for arg in node.args:
            _count_reads(arg, reads)
    elif isinstance(node, (LocalSet, LocalTee)):
        _count_reads(node.value, reads)
    elif isinstance(node, Load):
        _count_reads(node.address, reads)
        if node.vector is not None:
            _count_reads(node.vector, reads)
    elif isinstance(node, Store):
        _count_reads(node.address, reads)
        _count_reads(node.value, reads)
    elif isinstance(node, IfElse):
        for child in (node.condition, *node.then, *node.otherwise):
            _count_reads(child, reads)
    elif isinstance(node, Loop):
        for child in (*node.body, node.condition):
            _count_reads(child, reads)


def _tee_block(nodes: Sequence[Node], reads: Counter[int]) -> list[Node]:
    out: list[Node] = []
    for node in nodes:
        if isinstance(node, Loop):
            *body, condition = _tee_block([*node.body, node.condition], reads)
            node = Loop(body, condition)
        elif isinstance(node, IfElse):
            node = _tee_branches(node, reads)
        elif isinstance(node, LocalSet) and isinstance(node.value, IfElse):
            node = LocalSet(node.local, _tee_branches(node.value, reads))
        while out and isinstance(previous := out[-1], LocalSet):
            leaf = _first_leaf(node)
            if leaf is None or leaf.local != previous.local:
                break
            out.pop()
            alone = reads[previous.local] == 1
            value = previous.value if alone else LocalTee(previous.local, previous.value)
            node = _replace_first(node, value)
        out.append(node)
    return out


def _tee_branches(node: IfElse, reads: Counter[int]) -> IfElse:
    then, otherwise = _tee_block(node.then, reads), _tee_block(node.otherwise, reads)
    return IfElse(node.condition, then, otherwise, node.type)


def _first_leaf(node: Node) -> LocalGet | None:
    """The local that a tree reads before it does anything else."""
    while True:
        if isinstance(node, LocalGet):
            return node
        if isinstance(node, Op):
            node = node.args[0]
        elif isinstance(node, (LocalSet, LocalTee)):
            node = node.value
        elif isinstance(node, (Load, Store)):
            node = node.address
        elif isinstance(node, IfElse):
            node = node.condition
        else:
            return None


def _replace_first(node: Node, value: Node) -> Node:
    if isinstance(node, LocalGet):
        return value
    if isinstance(node, Op):
        return Op(node.name, (_replace_first(node.args[0], value), *node.args[1:]), node.lane)
    if isinstance(node, (LocalSet, LocalTee)):
        return type(node)(node.local, _replace_first(node.value, value))
    if isinstance(node, Load):
        address = _replace_first(node.address, value)
        return Load(node.op, address, node.offset, node.buffer, node.vector, node.lane)
    if isinstance(node, Store):
        address = _replace_first(node.address, value)
        return Store(node.op, address, node.value, node.offset, node.buffer, node.lane)
    assert isinstance(node, IfElse)
    condition = _replace_first(node.condition, value)
    return IfElse(condition, node.then, node.otherwise, node.type)
