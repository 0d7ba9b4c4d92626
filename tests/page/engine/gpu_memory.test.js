import assert from "node:assert/strict";
import { test } from "node:test";
import { livesOf, place } from "../../../resources/engine/gpu/memory.js";

const KERNELS = {
  add: { read: new Set([0, 1]), written: new Set([2]) },
  work: { read: new Set([0]), written: new Set([1, 2]) },
  lazy: { read: new Set([0]), written: new Set([2]) },
};
const roles = (workload) => KERNELS[workload];
const arena = (offset, nbytes) => ({ region: "arena", offset, nbytes, pack: null });
const call = (workload, ...args) => ({ op: "call", workload, args, node: workload });
const port = (buffer) => ({ spec: { name: `b${buffer}`, shape: [1], dtype: "f32" }, buffer });

function plan({ buffers, steps, inputs = [0], outputs }) {
  return { version: 1, name: "m", inputs: inputs.map(port), outputs: outputs.map(port), buffers, steps: [...steps, { op: "return", args: [] }], weights_bytes: 64, arena_bytes: 4096 };
}

/** No step reads and writes one buffer, and nothing alive is written over. */
function check(plans, lives, { slots, places }) {
  for (const life of lives) {
    assert.ok(slots[places[life.plan].get(life.buffer)] >= life.nbytes);
    for (const other of lives) {
      const together = other !== life && other.plan === life.plan && other.first <= life.last && life.first <= other.last;
      if (together) assert.notEqual(places[life.plan].get(life.buffer), places[life.plan].get(other.buffer));
    }
  }
  assert.equal(places.length, plans.length);
}

test("a chain in place becomes two buffers by turns", () => {
  // the plan writes each result over its own input
  const buffers = [arena(0, 64), arena(0, 64), arena(0, 64), { region: "weight", offset: 0, nbytes: 64, pack: null }];
  const chain = plan({ buffers, steps: [call("add", 0, 3, 1), call("add", 1, 3, 2)], outputs: [2] });
  const lives = livesOf(chain, 0, roles);
  const placed = place(lives, 1);
  check([chain], lives, placed);
  assert.deepEqual(placed.slots, [64, 64]);
});

test("workspaces live for their step, unused arguments nowhere", () => {
  const buffers = [arena(0, 64), arena(64, 32), arena(128, 64), arena(256, 16)];
  const one = plan({ buffers, steps: [call("work", 0, 2, 1), call("lazy", 2, 3, 1)], outputs: [1] });
  const lives = livesOf(one, 0, roles);
  assert.deepEqual(lives.map((l) => [l.buffer, l.first, l.last]), [[0, -1, 0], [2, 0, 1], [1, 0, 2]]);
  check([one], lives, place(lives, 1));
});

test("plans share buffers, for they run one after another", () => {
  const buffers = [arena(0, 64), arena(64, 128), { region: "weight", offset: 0, nbytes: 64, pack: null }];
  const a = plan({ buffers, steps: [call("add", 0, 2, 1)], outputs: [1] });
  const lives = [...livesOf(a, 0, roles), ...livesOf(a, 1, roles)];
  const placed = place(lives, 2);
  check([a, a], lives, placed);
  assert.deepEqual(placed.slots, [128, 64]);
});

test("what shares bytes under two names is refused, and so are writes where none may be", () => {
  const weight = { region: "weight", offset: 0, nbytes: 64, pack: null };
  const viewed = plan({ buffers: [arena(0, 64), arena(64, 64), arena(64, 32), arena(256, 32), weight], steps: [call("add", 0, 4, 1), call("add", 2, 4, 3)], outputs: [3] });
  assert.throws(() => livesOf(viewed, 0, roles), /reads buffer 2 by another name/);
  const overwritten = plan({ buffers: [arena(0, 64), arena(64, 64), arena(96, 32), arena(256, 32), weight], steps: [call("add", 0, 4, 1), call("add", 0, 4, 2), call("add", 1, 4, 3)], outputs: [3] });
  assert.throws(() => livesOf(overwritten, 0, roles), /reads buffer 1/);
  const onto = plan({ buffers: [arena(0, 64), weight], steps: [call("add", 0, 0, 1)], outputs: [0] });
  assert.throws(() => livesOf(onto, 0, roles), /into its weights/);
  const itself = plan({ buffers: [arena(0, 64), weight], steps: [call("add", 0, 1, 0)], outputs: [0] });
  assert.throws(() => livesOf(itself, 0, roles), /writes what it reads/);
});

test("random plans: what is alive together lies apart", () => {
  let seed = 7;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2 ** 31) % n;
  for (let round = 0; round < 50; round++) {
    const buffers = Array.from({ length: 20 }, (_, i) => arena(i * 1024, 4 + 4 * random(200)));
    const steps = Array.from({ length: 18 }, (_, i) => call("add", random(i + 2), random(i + 2), i + 2));
    const one = plan({ buffers, steps, inputs: [0, 1], outputs: [19, 5] });
    const lives = livesOf(one, 0, roles);
    check([one], lives, place(lives, 1));
  }
});
