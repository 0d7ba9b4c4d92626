/**
 * Hands each request of the hub to its worker, strictly one after another, and
 * ends workers that have served their time or do not answer. Requests about
 * serving have a queue of their own: they never wait for a measurement.
 */
import { EngineError, errorFields } from "../engine/errors.js";
import { canShare } from "../engine/features.js";
import { ask, transferOf } from "./ask.js";
import { Gate } from "./gate.js";
import { notMeasured, sentence } from "../engine/tuning/measured.js";
import { checkRequest } from "./messages.js";
import { Serving } from "./serving.js";

/** @import { WorkerLike } from "./ask.js" */
/** @import { Header } from "./frames.js" */
/** @import { Call, Reply } from "./serve.js" */
/** @import { Surroundings } from "./surroundings.js" */
/**
 * @typedef {object} Workplace
 * @property {() => WorkerLike} engine starts an engine worker
 * @property {() => WorkerLike} measurer starts a measuring worker
 * @property {(header: Header, blobs: Uint8Array[]) => void} send to the hub
 * @property {() => Surroundings} [surroundings] of the page, for `pulse`
 * @property {string} [bridge] address of the hub's WebSocket for a GPU
 * @property {(request: Header) => void} [onStart] tells the view what begins
 * @property {(request: Header, reply: Header) => void} [onDone] and how it ended
 */

export const KERNELS_PER_WORKER = 100;
/** A GPU's kernels leave no modules behind, and a new worker means a new device. */
export const KERNELS_PER_GPU_WORKER = 1000;
const GRACE_MS = 10_000;
/** Of a kernel's first run, if another of its workload took less than a fiftieth. */
const HUNG_MS = 2000;
const TIMES_OTHERS = 50;
/** Of the engine, for each run of the model; the hub gives up a little later. */
const ENGINE_MS = 110_000;
/** Requests that wait for no measurement. */
const SERVING = ["serve", "served", "serve_stop", "generate_stop"];

export class Router {
  /** @type {WorkerLike | null} */ #engine = null;
  /** @type {WorkerLike | null} */ #measurer = null;
  /** @type {Call | null} kept for the next measuring worker */ #fixture = null;
  /** @type {Map<number, Uint8Array<ArrayBuffer>>} blobs of the next fixture that no frame holds, by index */ #ahead = new Map();
  #kernels = 0;
  /** @type {string | undefined} the sha256 of the last challenger: more pairs of it are no further kernel */ #challenger;
  /** @type {Map<string, number>} ms of the last kernel in time, by workload */ #took = new Map();
  #closed = false;
  #queues = { tuning: Promise.resolve(), serving: Promise.resolve() };
  /** @type {Gate | null} before the measuring worker */ #gate = canShare() ? new Gate(() => performance.now()) : null;
  /** @type {Serving | null} */ #serving = null;
  #inferences = 0;
  #threads = 1;

  /** @type {Map<string, string>} kernels that cost the GPU twice, and why, by sha256 */ #refused = new Map();

  /** @param {Workplace} workplace */
  constructor(workplace) {
    this.place = workplace;
  }

  /**
   * @param {Call} call
   * @returns {Promise<void>} when its reply is sent
   */
  receive(call) {
    const name = SERVING.includes(call.header.type) ? "serving" : "tuning";
    const answered = this.#queues[name].then(() => this.#answer(call, name === "tuning"));
    this.#queues[name] = answered.catch(() => {}); // its caller hears of it; the next one has its turn
    return answered;
  }

  /** Ends all workers; requests that wait get no answer. */
  close() {
    this.#closed = true;
    this.#engine?.terminate();
    this.#measurer?.terminate();
    this.#engine = this.#measurer = null;
  }

  /** @param {Call} call @param {boolean} tunes */
  async #answer(call, tunes) {
    if (this.#closed) return;
    const request = call.header;
    /** @type {Reply} */
    let reply;
    try {
      checkRequest(request, call.blobs);
      this.place.onStart?.(request);
      if (tunes) this.#serving?.touch();
      reply = await this.#answers[request.type](request.implementation === "bridge" ? this.#withBridge(call) : call);
    } catch (e) {
      reply = { header: { type: "error", ...errorFields(e) } };
    }
    if (tunes) this.#serving?.touch(false);
    if (this.#closed) return;
    const header = { ...reply.header, id: request.id };
    this.place.send(header, reply.blobs ?? []);
    this.place.onDone?.(request, header);
  }

  /** What answers each request. @type {Record<string, (call: Call) => Reply | Promise<Reply>>} */
  #answers = {
    load: (call) => this.#load(call),
    weights: (call) => this.#askEngine(call),
    register: (call) => this.#register(call),
    infer: (call) => this.#between(() => this.#askEngine(call)),
    rival_drop: (call) => this.#askEngine(call),
    trial: (call) => this.#between(() => this.#askEngine(call)),
    generate: (call) => this.#between(() => this.#generate(call)),
    generate_stop: (call) => this.#askEngine(call),
    gpu_lose: (call) => this.#askEngine(call),
    serve: (call) => this.#serve(call),
    served: ({ header }) => this.#served(header),
    serve_stop: () => this.#stopServing().then(() => ({ header: { type: "ok" } })),
    probe: (call) => this.#probe(call),
    gpu_probe: (call) => this.#probe(call),
    rates: (call) => this.#probe(call),
    pulse: (call) => this.#pulse(call),
    ahead: (call) => this.#keepAhead(call),
    fixture: (call) => this.#setFixture(call),
    prepare: (call) => this.#prepare(call),
    measure: (call) => this.#measure(call),
  };

  /** Between two inferences of a model that serves. @param {() => Promise<Reply>} run */
  #between(run) {
    return this.#serving ? this.#serving.between(run) : run();
  }

  /** @param {Call} call */
  #withBridge(call) {
    return { ...call, header: { ...call.header, bridge: this.place.bridge } };
  }

  /** @param {Call} call */
  async #load(call) {
    if (call.header.rival) return this.#askEngine(call); // two models in one worker
    await this.#stopServing();
    this.#threads = call.header.threads ?? 1;
    // a new worker gives the old model's memory back for certain
    this.#engine?.terminate();
    this.#engine = this.place.engine();
    return this.#askEngine(call);
  }

  /** @param {Call} call */
  async #register(call) {
    const reply = await this.#askEngine(call);
    if (reply.header.type === "ok" && !call.header.rival) this.#serving?.swapped();
    return reply;
  }

  /** @param {Call} call @returns {Promise<Reply>} */
  #askEngine(call, transfer = true, limit_ms = ENGINE_MS * Math.max(1, call.header.runs ?? 1)) {
    if (!this.#engine) throw new EngineError("No model is loaded.", "Load a plan first.");
    return this.#ask(this.#engine, call, transfer, limit_ms);
  }

  /**
   * Passes the tokens on as they come. It takes as long as the text is; the hub notices silence.
   * @param {Call} call
   * @returns {Promise<Reply>}
   */
  async #generate(call) {
    const worker = this.#engine;
    const onMessage = (/** @type {any} */ { data }) => {
      if (data.header.of === call.header.id) this.place.send(data.header, []);
    };
    worker?.addEventListener("message", onMessage);
    try {
      return await this.#askEngine(call, true, Infinity);
    } finally {
      worker?.removeEventListener("message", onMessage);
    }
  }

  /** @param {Call} call @returns {Promise<Reply>} */
  async #serve({ header: { inputs, interval_ms, budget }, blobs }) {
    const gate = this.#gate;
    if (!gate)
      throw new EngineError("Serving needs shared memory, which this page has not.", "Use a cross-origin isolated page.");
    await this.#stopServing();
    const infer = async () => {
      const header = { type: "infer", id: --this.#inferences, inputs, runs: 1, profile: false };
      const reply = await this.#askEngine({ header, blobs }, false);
      if (reply.header.type === "error") throw new EngineError(reply.header.error, reply.header.hint);
    };
    const core_free = navigator.hardwareConcurrency > this.#threads;
    const now = () => performance.now();
    const sleep = (/** @type {number} */ ms) => new Promise((r) => setTimeout(() => r(undefined), ms));
    const serving = new Serving({ infer, gate, interval_ms, budget, core_free }, { now, sleep });
    await serving.start();
    this.#serving = serving;
    return { header: { type: "ok" } };
  }

  /** @param {Header} header @returns {Reply} */
  #served({ hold, budget }) {
    if (!this.#serving) throw new EngineError("The model is not serving.", "Ask for `serve` first.");
    if (hold !== undefined) this.#serving.hold(hold);
    if (typeof budget === "number") this.#serving.keep(budget);
    return { header: { type: "served", ...this.#serving.take() } };
  }

  async #stopServing() {
    const serving = this.#serving;
    this.#serving = null;
    await serving?.stop();
  }

  /** @param {Call} call @returns {Reply} */
  #keepAhead({ header: { blob, nbytes, offset }, blobs: [part] }) {
    if (offset === 0) this.#ahead.set(blob, new Uint8Array(nbytes));
    const whole = this.#ahead.get(blob);
    if (!whole || offset + part.length > whole.length)
      throw new EngineError(`The part of blob ${blob} at ${offset} belongs to nothing.`, "Send the parts in order.");
    whole.set(part, offset);
    return { header: { type: "ok" } };
  }

  /** @param {Call} request */
  async #setFixture(request) {
    this.#fixture = null;
    const call = { ...request, blobs: request.blobs.map((b, i) => this.#ahead.get(i) ?? b) };
    this.#ahead.clear();
    const reply = await this.#ask(this.#measuringWorker(), call, false, ENGINE_MS);
    if (reply.header.type === "ok") this.#fixture = call;
    return reply;
  }

  /** @param {Call} call */
  async #probe(call) {
    const worker = this.place.measurer();
    try {
      return await ask(worker, call, [], { limit_ms: Infinity, what: "The probe" });
    } finally {
      worker.terminate();
    }
  }

  /**
   * A kernel that costs the GPU, twice in a row, is refused from then on.
   * @param {Call} call
   * @returns {Promise<Reply>}
   */
  async #measure(call) {
    const { sha256 } = call.header.challenger;
    const why = this.#refused.get(sha256);
    if (why) return { header: { type: "measured", ...notMeasured(why) } };
    for (let losses = 0; ; ) {
      const reply = await this.#measureOnce(call);
      if (reply.header.code !== "gpu-lost") return reply;
      this.#endMeasurer();
      if (++losses < 2) continue;
      const lost = `The kernel is refused: ${reply.header.error}`;
      if (sha256) this.#refused.set(sha256, lost);
      return { header: { type: "measured", ...notMeasured(lost) } };
    }
  }

  /** Whether the fixture lies on a GPU. */
  get #onGpu() {
    return this.#fixture?.header.backend === "webgpu";
  }

  /** @param {Call} call @returns {Promise<Reply>} */
  async #measureOnce(call) {
    const { sha256 } = call.header.challenger;
    if (!sha256 || sha256 !== this.#challenger) {
      if (this.#kernels >= (this.#onGpu ? KERNELS_PER_GPU_WORKER : KERNELS_PER_WORKER)) this.#endMeasurer();
      this.#kernels++;
    }
    this.#challenger = sha256;
    const lost = await this.#renewMeasurer();
    if (lost) return lost;
    const limit_ms = call.header.policy.max_ms * 3 + GRACE_MS;
    const { workload } = call.header.challenger;
    const took = this.#took.get(workload);
    const first_ms = this.#onGpu || took === undefined ? undefined : Math.max(HUNG_MS, TIMES_OTHERS * took);
    try {
      const worker = this.#measuringWorker();
      const transfer = this.#onGpu ? [] : transferOf(call); // a second try needs them again
      const reply = await ask(worker, call, transfer, { limit_ms, first_ms, what: "The kernel", worked_ms: this.#worked() });
      const ms = Math.min(...(reply.header.samples_ms ?? []), ...(reply.header.incumbent_ms ?? []));
      if (Number.isFinite(ms)) this.#took.set(workload, ms);
      return reply;
    } catch (e) {
      this.#endMeasurer();
      return { header: { type: "measured", ...notMeasured(sentence(e)) } };
    }
  }

  /**
   * Before a measurement: a new worker in place of one that was ended, with the fixture.
   * @returns {Promise<Reply | null>} the error, if that failed
   */
  async #renewMeasurer() {
    if (this.#measurer || !this.#fixture) return null;
    const again = await this.#ask(this.#measuringWorker(), this.#fixture, false, ENGINE_MS);
    return again.header.type === "error" ? again : null;
  }

  /**
   * Kernels for later measurements; without a worker that measures there is nothing to prepare.
   * @param {Call} call
   * @returns {Promise<Reply>}
   */
  async #prepare(call) {
    return this.#measurer ? this.#ask(this.#measurer, call, true, ENGINE_MS) : { header: { type: "ok" } };
  }

  /**
   * In the worker that measures: it is its core that matters.
   * @param {Call} call
   * @returns {Promise<Reply>}
   */
  async #pulse(call) {
    const lost = await this.#renewMeasurer();
    if (lost) return lost;
    const reply = await this.#ask(this.#measuringWorker(), call, true, ENGINE_MS);
    return { ...reply, header: { ...reply.header, ...this.place.surroundings?.() } };
  }

  #measuringWorker() {
    if (!this.#measurer) {
      this.#measurer = this.place.measurer();
      if (this.#gate) this.#measurer.postMessage({ header: { type: "gate", words: this.#gate.words } });
    }
    return this.#measurer;
  }

  /** A clock of what the measuring worker may do, where there is a gate. */
  #worked() {
    const gate = this.#gate;
    return gate ? () => gate.open_ms : undefined;
  }

  #endMeasurer() {
    this.#measurer?.terminate();
    this.#measurer = null;
    this.#gate?.forget();
    this.#kernels = 0;
  }

  /**
   * A worker that dies is dropped: the model or the fixture is gone with it.
   * @param {WorkerLike} worker
   * @param {Call} call
   * @param {boolean} transfer
   * @param {number} limit_ms
   * @returns {Promise<Reply>}
   */
  async #ask(worker, call, transfer, limit_ms) {
    const worked_ms = worker === this.#measurer ? this.#worked() : undefined;
    try {
      return await ask(worker, call, transfer ? transferOf(call) : [], {
        limit_ms, what: `The request "${call.header.type}"`, worked_ms,
      });
    } catch (e) {
      if (worker === this.#engine) this.#engine = null;
      if (worker === this.#measurer) this.#endMeasurer();
      worker.terminate();
      throw e;
    }
  }
}
