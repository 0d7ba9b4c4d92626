/**
 * Visits to a page that tunes, on a clock of their own: the real engine, the real gate and real
 * kernels, whose time is what the test says. Inferences come when a visitor wants them; what of the
 * page's thread is taken by tuning, they wait for.
 */
import { Engine } from "../../resources/engine/engine.js";
import { GUARD } from "../../resources/engine/tuning/compare.js";
import { TrialBench } from "../../resources/sdk/tuning/bench.js";
import { Tuning } from "../../resources/sdk/tuning/tuning.js";
import { entry } from "./tiny_bundle.js";
import { addKernel, doubleKernel, f32, floats, kernel, store, at, int, load, trap } from "./wasm.js";

export const COUNT = 16;
const STEPS = 3;
const GAP_MS = 400;
const BUSY = 1.02; // what a measuring worker costs the inferences beside it

/** Right and wrong bodies, and those whose header lies. */
const BODIES = {
  right: { bytes: addKernel, extent: COUNT },
  wrong: { bytes: doubleKernel, extent: COUNT },
  short: { bytes: addKernel, extent: COUNT - 1 },
  long: { bytes: addKernel, extent: COUNT + 1 },
  trap: { bytes: kernel(3, () => trap), extent: COUNT },
  // right where every byte around is a guard's, as in the worker, and there alone
  sly: { bytes: kernel(3, (i) => store(at(2, i), [...load(at(0, i)), ...load(at(1, i)), 0x92, ...int(0), 0x2d, 0, 0, ...int(GUARD), 0x46, 0xb2, 0x94])), extent: COUNT },
  swapped: { bytes: kernel(3, (i) => store(at(2, i), [...at(0, i), 0x2a, 2, 0])), extent: COUNT },
};

/** A module with its number behind it. @param {Uint8Array} bytes @param {number} id */
const numbered = (bytes, id) => Uint8Array.from([...bytes, 0, 5, 2, 0x69, 0x64, id & 255, id >> 8]);

/** Equal seeds, equal visits. @param {number} seed */
export function randomBy(seed) {
  return () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 2 ** 32;
  };
}

/** @param {number[]} all */
export const p95 = (all) => [...all].sort((a, b) => a - b)[Math.ceil(0.95 * all.length) - 1];

/**
 * A page's bundle: `shapes` has for each workload its kernels, the first of which is the bundle's own.
 * @typedef {{body?: keyof typeof BODIES, alone: number, placed?: number, used?: number}} Shape ms of a call, alone in the worker, in turns in the model, and for the visitor
 * @param {Shape[][]} shapes
 */
export function bundleOf(shapes) {
  const files = new Map();
  const costs = [];
  const kernels = shapes.map((list, w) =>
    list.map(({ body = "right", alone, placed = alone, used = placed }, k) => {
      const id = costs.push([alone, placed, used]) - 1;
      const { bytes, extent } = BODIES[body];
      const file = `kernels/${id}.wasm`;
      files.set(file, numbered(bytes, id));
      return { workload: `w${w}`, settings: `s${k}`, panels: [], parallel_extent: extent, tiers: { simd128: entry(file, files.get(file)) } };
    }),
  );
  const nbytes = COUNT * 4;
  const arg = (role) => ({ role, dtype: "f32", nbytes, pack: null, low: -1, high: 1 });
  const trials = shapes.map((_, w) => ({ workload: `w${w}`, args: [arg("input"), arg("input"), arg("output")], tolerance: 1e-6 }));
  const steps = shapes.flatMap((_, w) => Array.from({ length: STEPS }, () => ({ op: "call", workload: `w${w}`, args: [0, 0, 1], node: `n${w}` })));
  const spec = (name) => ({ name, shape: [COUNT], dtype: "f32" });
  const buffers = [0, nbytes].map((offset) => ({ region: "arena", offset, nbytes, pack: null }));
  const plan = { version: 1, name: "visits", inputs: [{ spec: spec("x"), buffer: 0 }], outputs: [{ spec: spec("y"), buffer: 1 }], buffers, steps: [...steps, { op: "return", workload: "", args: [], node: "" }], weights_bytes: 0, arena_bytes: 2 * nbytes };
  const manifest = { format: "nnjit-bundle", name: "visits", kernels: kernels.map(([own]) => own), candidates: { kernels: kernels.flatMap(([, ...rest]) => rest), trials, share: "" } };
  return { files, costs, plan, manifest, base: new URL("http://visits.example/manifest.json") };
}

/** Lets kernels take their time on the clock, and files come from the bundle. */
export class Device {
  #using = false;
  #memory = new Map();

  /**
   * @param {import("node:test").TestContext} t
   * @param {import("./clock.js").OwnClock} clock
   * @param {ReturnType<typeof bundleOf>} bundle
   * @param {number} seed of the noise
   */
  constructor(t, clock, bundle, seed) {
    this.clock = clock.rule(t);
    this.bundle = bundle;
    this.random = randomBy(seed);
    const link = WebAssembly.instantiate;
    t.mock.method(WebAssembly, "instantiate", async (module, imports) => {
      const { run } = (await link(module, imports)).exports;
      const [section] = WebAssembly.Module.customSections(module, "id");
      const costs = bundle.costs[new Uint16Array(section)[0]];
      const timed = (...args) => {
        run(...args);
        const alone = new Uint8Array(imports.env.memory.buffer)[0] === GUARD;
        const ms = costs[alone ? 0 : this.#using ? 2 : 1];
        clock.spend((ms * (args[4] - args[3]) * (1 + 0.01 * (this.random() + this.random() + this.random() - 1.5))) / COUNT);
      };
      return { exports: { run: Object.defineProperty(timed, "length", { value: run.length }) } };
    });
    t.mock.method(globalThis, "fetch", async (url) => new Response(bundle.files.get(new URL(url).pathname.slice(1))));
  }

  
  store = { load: async (key) => structuredClone(this.#memory.get(key)), save: async (key, known) => void this.#memory.set(key, structuredClone(known)) };

  /** The next visit is the first. */
  forget() {
    this.#memory.clear();
  }

  /** Ms of a run for the visitor, without noise. @param {Record<string, string>} settings by workload */
  truth(settings) {
    const { kernels, candidates } = this.bundle.manifest;
    const all = [...kernels, ...candidates.kernels];
    return Object.entries(settings).reduce((sum, [workload, s]) => {
      const { file } = all.find((k) => k.workload === workload && k.settings === s).tiers.simd128;
      return sum + STEPS * this.bundle.costs[Number(/\d+/.exec(file)[0])][2];
    }, 0);
  }

  /**
   * One visit.
   * @param {{inferences?: number, tuned?: boolean, options?: object}} [how]
   * @returns {Promise<{latencies: number[], wrong: number, tuning: Tuning | null}>}
   */
  async visit({ inferences = 40, tuned = true, options = {} } = {}) {
    const { clock, bundle, random } = this;
    const engine = new Engine();
    engine.load(bundle.plan);
    await engine.register(bundle.manifest.kernels.map(({ tiers, ...header }) => ({ ...header, bytes: bundle.files.get(tiers.simd128.file) })));
    const data = f32(...Array.from({ length: COUNT }, (_, i) => i + 1));
    const inputs = [{ name: "x", shape: [COUNT], dtype: "f32", data }];
    const latencies = [];
    let [wrong, next] = [0, clock.ms + GAP_MS * random()];
    /** @type {Tuning | null} */ let tuning = null;
    const serve = (/** @type {boolean} */ waits, share = 1) => {
      while (latencies.length < inferences && next <= clock.ms) {
        const late = waits ? clock.ms - next : 0;
        tuning?.standAside();
        this.#using = true;
        const start = clock.ms;
        const { outputs } = engine.infer(inputs);
        clock.spend((share - 1) * (clock.ms - start));
        this.#using = false;
        tuning?.took(inputs, clock.ms - start);
        latencies.push(late + clock.ms - start);
        if (floats(outputs[0].data).some((y, i) => y !== 2 * (i + 1))) wrong++;
        next = clock.ms + GAP_MS * (0.5 + random());
      }
      if (tuning && latencies.length >= inferences) {
        tuning.stop();
        engine.dispose(); // as a released session does, wherever tuning stands
      }
    };
    const bench = new TrialBench();
    const trials = {
      answer: async (request) => {
        const answer = await bench.answer(request);
        serve(false, BUSY);
        return answer;
      },
      close: () => {},
    };
    const idle = async () => {
      serve(true);
      clock.spend(10);
      serve(false);
    };
    const page = { moment: idle, pause: async () => serve(true), hidden: () => false, trials };
    if (tuned) {
      tuning = await Tuning.start({ bundle, engine, tier: "simd128", threads: 1 }, { budgetMs: 1e6, ...options }, page, this.store);
      await tuning.done;
    }
    while (latencies.length < inferences) await idle();
    return { latencies, wrong, tuning };
  }
}
