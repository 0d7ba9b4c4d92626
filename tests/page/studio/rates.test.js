import assert from "node:assert/strict";
import { test } from "node:test";
import { BASE, chainOf, rates, STRIDE_BYTES } from "../../../resources/studio/measure/rates.js";
import { checkRequest } from "../../../resources/studio/messages.js";
import { at, int, kernel, load, store } from "../wasm.js";
import { OwnClock } from "../clock.js";

/** Does next to nothing for each i in begin..end. */
const counting = kernel(0, () => store(int(0), load(int(4))));
const item = (more = {}) => ({ kernel: 0, extent: 0, threads: 1, chain_bytes: 0, ...more });
const request = (items, more = {}) => ({ items, memory_bytes: 4096, rounds: 3, sample_ms: 0.2, warmup_ms: 0.1, ...more });
const clock = { now: () => performance.now(), quantum_ms: 1e-4 };

test("a chain is one closed walk over every place, the same each time", () => {
  for (const bytes of [4096, 48 * 1024, 64 * 1024 + 256, 300 * 1024]) {
    const chain = chainOf(bytes);
    assert.deepEqual(chain, chainOf(bytes));
    assert.equal(chain.length, Math.ceil(bytes / STRIDE_BYTES));
    assert.equal(new Set(chain).size, chain.length);
    for (const place of chain) {
      assert.equal((place - BASE) % STRIDE_BYTES, 0);
      assert.ok(place >= BASE && place < BASE + bytes);
    }
  }
});

test("a chain has no order that a prefetcher could guess", () => {
  const chain = chainOf(64 * 1024);
  const steps = chain.map((place, i) => Math.abs(place - chain[(i + 1) % chain.length]));
  const commonest = Math.max(...steps.map((s) => steps.filter((t) => t === s).length));
  assert.ok(commonest < chain.length / 20, `${commonest} equal steps`);
});

test("a chain walks window after window, so that few pages are in use at once", () => {
  const windows = chainOf(256 * 1024).map((place) => Math.floor((place - BASE) / (64 * 1024)));
  assert.deepEqual([...new Set(windows)], [0, 1, 2, 3]);
  assert.equal(windows.filter((w, i) => i && w !== windows[i - 1]).length, 3);
});

test("every item gets a sample of one iteration for each round", async (t) => {
  const { now } = new OwnClock().timeKernels(t, 1e-5);
  const samples = await rates(request([item(), item({ extent: 1000 })]), [counting], { now, quantum_ms: 1e-4 });
  assert.equal(samples.length, 2);
  for (const own of samples) {
    assert.equal(own.length, 3);
    for (const ms of own) assert.ok(Math.abs(ms / 1e-5 - 1) < 1e-9, `${ms} ms an iteration`);
  }
});

test("a sample lasts at least sample_ms and 20 quanta of a coarse clock", async (t) => {
  const quantum_ms = 0.05;
  const looks = [];
  const clock = new OwnClock().timeKernels(t, 1e-5);
  const now = () => {
    looks.push(Math.floor(clock.ms / quantum_ms) * quantum_ms);
    return looks.at(-1);
  };
  const samples = await rates(request([item({ extent: 100 })], { rounds: 2 }), [counting], { now, quantum_ms });
  const [begin, end] = looks.slice(-2); // of the last sample
  assert.ok(end - begin >= 20 * quantum_ms - 1e-9, `${end - begin} ms`);
  assert.ok(samples[0].every((ms) => ms > 0));
});

test("a kernel finds the chain in memory, and its first place at address 0", async () => {
  // traps where the first place does not lead to the second
  const [first, second] = chainOf(1024);
  const i32 = (address) => [...address, 0x28, 2, 0];
  const differ = (a, b) => [...a, ...b, 0x47];
  const check = (a, b) => [...differ(a, b), 0x04, 0x40, 0x00, 0x0b];
  const spy = kernel(0, () => [...check(i32(int(0)), int(first)), ...check(i32(int(first)), int(second))]);
  const samples = await rates(request([item({ chain_bytes: 1024, extent: 8 })]), [spy], clock);
  assert.equal(samples[0].length, 3);
  await assert.rejects(rates(request([item({ chain_bytes: 2048, extent: 8 })]), [spy], clock), /unreachable/);
});

test("a module that is no kernel is an error that names it", async () => {
  const wrong = kernel(0, () => [], { name: "go" });
  await assert.rejects(rates(request([item()]), [wrong], clock), /kernel 0 exports no function "run"/);
  const pointers = kernel(2, (i) => store(at(1, i), load(at(0, i))));
  await assert.rejects(rates(request([item()]), [pointers], clock), /kernel 0 takes 4 parameters/);
});

test("items run on one thread or all on the same number of them, and the team is closed", async () => {
  let closed = 0;
  const team = { add: async () => [1], run: (id, run, pointers, extent) => run(...pointers, 0, extent), close: () => closed++ };
  const start = async (threads) => ({ ...team, threads });
  const two = item({ threads: 2, extent: 16 });
  const samples = await rates(request([item({ extent: 16 }), two]), [counting], clock, start);
  assert.equal(samples.length, 2);
  assert.equal(closed, 1);
  await assert.rejects(rates(request([two, item({ threads: 3, extent: 16 })]), [counting], clock, start), /same number/);
  assert.equal(closed, 2);
});

test("the request is checked before a worker sees it", () => {
  const header = { type: "rates", id: 1, ...request([item()]) };
  checkRequest(header, [counting]);
  assert.throws(() => checkRequest(header, []), /names kernel 0/);
  assert.throws(() => checkRequest({ ...header, items: [item({ threads: 0 })] }, [counting]), /item 0.*threads/);
  assert.throws(() => checkRequest({ ...header, rounds: "3" }, [counting]), /rounds/);
});
