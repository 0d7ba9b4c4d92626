import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { decodeFrame, encodeFrame } from "../../../resources/studio/frames.js";
import { Batch, packBindings } from "../../../resources/studio/gpu/batch.js";
import { openBridge } from "../../../resources/studio/gpu/bridge.js";

const FACTS = {
  type: "opened",
  vendor: "acme",
  architecture: "",
  device: "0x1",
  description: "ACME 9000",
  driver: "1",
  is_fallback: false,
  features: ["shader-f16"],
  language_features: [],
  limits: {
    maxBufferSize: 2 ** 40,
    maxStorageBufferBindingSize: 2 ** 40,
    maxStorageBuffersPerShaderStage: 8,
    minStorageBufferOffsetAlignment: 256,
    maxComputeWorkgroupsPerDimension: 65535,
  },
  subgroup_min: 0,
  subgroup_max: 0,
  stamp_slots: 0,
  max_read_bytes: 8,
};

/** The hub and the process behind it: keeps what it is told, answers what the test says. */
class FakeSocket extends EventTarget {
  static last;
  static answers = {};
  seen = [];

  constructor(address) {
    super();
    this.address = address;
    FakeSocket.last = this;
    queueMicrotask(() => this.dispatchEvent(new Event("open")));
  }

  send(frame) {
    const { header, blobs } = decodeFrame(frame.buffer);
    this.seen.push({ header, blobs });
    const answer = FakeSocket.answers[header.type]?.(header, blobs);
    if (answer) queueMicrotask(() => this.say({ id: header.id, ...answer.header }, answer.blobs));
  }

  say(header, blobs = []) {
    this.dispatchEvent(new MessageEvent("message", { data: encodeFrame(header, blobs).buffer }));
  }

  close() {
    queueMicrotask(() => this.dispatchEvent(new Event("close")));
  }

  /** The words of all batches, one list. */
  get words() {
    const runs = this.seen.filter(({ header }) => header.type === "run");
    return runs.flatMap(({ blobs }) => [...new Uint32Array(blobs[0].slice().buffer)]);
  }
}

const real = globalThis.WebSocket;
beforeEach(() => {
  globalThis.WebSocket = FakeSocket;
  FakeSocket.answers = {
    open: () => ({ header: FACTS }),
    compile: () => ({ header: { type: "compiled", ms: 7 } }),
    done: () => ({ header: { type: "ok", counters: { passes: 3 } } }),
    read: ({ nbytes, offset }) => ({ header: { type: "bytes", counters: {} }, blobs: [new Uint8Array(nbytes).fill(offset)] }),
  };
});
afterEach(() => (globalThis.WebSocket = real));

const open = async () => ({ device: await openBridge("ws://hub/gpu?token=t"), socket: FakeSocket.last });
const spec = { code: "fn main() {}", entry: "main", access: ["read", "read_write"] };
const rejection = async (promise) => promise.then(() => assert.fail("it resolved"), (e) => e);

test("numbers over 32 bits are two words, low first", () => {
  const batch = new Batch();
  batch.create(1, 3 * 2 ** 32 + 5);
  batch.dispatch(9, [1, 2, 3], packBindings([{ buffer: { id: 4 }, offset: 2 ** 32, size: 8 }]));
  const [words] = batch.take();
  assert.deepEqual([...new Uint32Array(words.slice().buffer)], [1, 1, 5, 3, 4, 9, 1, 2, 3, 1, 4, 0, 1, 8, 0]);
  assert.ok(batch.isEmpty);
});

test("a batch grows, and says when it is long", () => {
  const batch = new Batch();
  for (let i = 0; i < 40000; i++) batch.stamp(i);
  assert.ok(batch.isLong);
  const [words] = batch.take();
  assert.equal(words.byteLength, 8 * 40000);
});

test("the device tells what the process told of the adapter", async () => {
  const { device, socket } = await open();
  assert.equal(socket.address, "ws://hub/gpu?token=t");
  assert.equal(device.info.implementation, "bridge");
  assert.equal(device.info.description, "ACME 9000");
  assert.ok(device.features.has("shader-f16"));
  assert.equal(device.timestamps.available, false);
});

test("commands, writes and frees keep their order, and go before a readback", async () => {
  const { device, socket } = await open();
  const [a, b] = [device.createBuffer(1024), device.createBuffer(1022)];
  const pipeline = await device.pipeline(spec);
  const bindings = [
    { buffer: a, offset: 0, size: 256 },
    { buffer: b, offset: 256, size: 4 },
  ];
  const bytes = new Uint8Array(4).fill(1);
  device.encode([{ op: "dispatch", pipeline, bindings, workgroups: [2, 1, 1] }]);
  device.write(a, 8, bytes);
  bytes.fill(99); // it was copied when it was given
  device.encode([{ op: "copy", from: a, fromOffset: 0, to: b, toOffset: 4, nbytes: 8 }]);
  device.destroyBuffer(a);
  device.destroyBuffer(a);
  const read = await device.read(b, 0, 12);
  assert.deepEqual([...read], [...new Array(8).fill(0), ...new Array(4).fill(8)]); // in two parts
  assert.deepEqual(await device.readParts(b, 0, [8, 4]), [read.slice(0, 8), read.slice(8)]);
  const dispatch = [4, 3, 2, 1, 1, 2, 1, 0, 0, 256, 0, 2, 256, 0, 4, 0];
  assert.deepEqual(socket.words, [1, 1, 1024, 0, 1, 2, 1024, 0, ...dispatch, 3, 1, 8, 0, 0, 5, 1, 0, 0, 2, 4, 0, 8, 0, 2, 1]);
  const kinds = socket.seen.map(({ header }) => header.type);
  assert.deepEqual(kinds, ["open", "compile", "run", "read", "read", "read", "read"]);
  assert.deepEqual([...socket.seen[2].blobs[1]], [1, 1, 1, 1]);
  assert.throws(() => device.encode([{ op: "dispatch", pipeline, bindings, workgroups: [1, 1, 1] }]), /is gone/);
  assert.equal(device.counters.dispatches, 1);
  assert.equal(device.counters.buffer_bytes, 1024);
});

test("misuse throws before anything is queued", async () => {
  const { device } = await open();
  const a = device.createBuffer(16);
  assert.throws(() => device.write(a, 2, new Uint8Array(4)), /no words/);
  assert.throws(() => device.write(a, 16, new Uint8Array(4)), /no words/);
  assert.throws(() => device.createBuffer(2 ** 41), (e) => e.code === "gpu-memory");
  assert.throws(() => device.encode([{ op: "stamp", index: 0 }]), /no stamp 0/);
  await assert.rejects(device.readStamps(1), /no timestamps/);
  const pipeline = await device.pipeline(spec);
  const twice = [a, a].map((buffer) => ({ buffer, offset: 0, size: 16 }));
  assert.throws(() => device.encode([{ op: "dispatch", pipeline, bindings: twice, workgroups: [1, 1, 1] }]), /also given/);
  await device.done();
  assert.equal(FakeSocket.last.words.length, 4); // the one buffer
});

test("equal pipelines are one, and one that failed is tried again", async () => {
  const { device, socket } = await open();
  const [one, two] = await Promise.all([device.pipeline(spec), device.pipeline({ ...spec })]);
  assert.equal(one, two);
  assert.equal(one.ms, 7);
  FakeSocket.answers.compile = () => ({ header: { type: "error", error: "No.", hint: "", code: "gpu-kernel" } });
  const bad = { ...spec, code: "bogus" };
  for (let i = 0; i < 2; i++) assert.equal((await rejection(device.pipeline(bad))).code, "gpu-kernel");
  assert.equal(socket.seen.filter(({ header }) => header.type === "compile").length, 3);
});

test("what the process counted is in the counters after a wait", async () => {
  const { device } = await open();
  await device.done();
  assert.equal(device.counters.passes, 3);
  assert.equal(device.counters.waits, 1);
});

test("an error of a batch comes back from the next wait; the device lives on", async () => {
  const { device } = await open();
  const well = FakeSocket.answers.done;
  FakeSocket.answers.done = () => ({ header: { type: "error", error: "Out of memory.", hint: "Buy more.", code: "gpu-memory" } });
  const error = await rejection(device.done());
  assert.deepEqual([error.code, error.error, error.hint], ["gpu-memory", "Out of memory.", "Buy more."]);
  FakeSocket.answers.done = well;
  await device.done();
});

test("a process that ends is a lost device: all that waits rejects, and all later calls", async () => {
  const { device, socket } = await open();
  const buffer = device.createBuffer(16);
  FakeSocket.answers = {};
  const waiting = [device.read(buffer, 0, 4), device.done(), device.pipeline(spec)].map(rejection);
  socket.say({ type: "ended", reason: "The GPU process ended with code -11." });
  socket.close();
  assert.deepEqual(await device.lost, { reason: "unknown", message: "The GPU process ended with code -11." });
  for (const error of await Promise.all(waiting)) {
    assert.equal(error.code, "gpu-lost");
    assert.match(error.message, /code -11/);
  }
  assert.throws(() => device.createBuffer(4), (e) => e.code === "gpu-lost");
  assert.throws(() => device.encode([]), (e) => e.code === "gpu-lost");
  await assert.rejects(device.read(buffer, 0, 4), (e) => e.code === "gpu-lost");
  device.destroyBuffer(buffer);
  device.flush();
});

test("destroy is told as destroyed", async () => {
  const { device } = await open();
  device.destroy();
  assert.equal((await device.lost).reason, "destroyed");
});

test("no adapter and no hub are both unavailable, with the reason", async () => {
  FakeSocket.answers.open = () => ({ header: { type: "error", error: "No GPU here.", hint: "Buy one.", code: "gpu-unavailable" } });
  const none = await rejection(openBridge("ws://x"));
  assert.deepEqual([none.code, none.error, none.hint], ["gpu-unavailable", "No GPU here.", "Buy one."]);
  FakeSocket.answers.open = () => void FakeSocket.last.close();
  const gone = await rejection(openBridge("ws://x"));
  assert.equal(gone.code, "gpu-unavailable");
  assert.match(gone.error, /does not answer/);
});
