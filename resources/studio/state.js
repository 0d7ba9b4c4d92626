/** What the page shows, as plain data: no DOM here. */
import { estimate } from "./estimate.js";

/** @import { Header } from "./frames.js" */
/** @typedef {"connecting" | "waiting" | "loading" | "ready" | "running" | "measuring" | "closed"} Phase */
/**
 * @typedef {object} State
 * @property {Phase} phase
 * @property {string} model
 * @property {number} threads that run it
 * @property {string} backend what runs it in their place: WebGPU; empty for Wasm
 * @property {number[]} latencies_ms the last ones, oldest first: of inferences, or of tokens while a text is made
 * @property {number[]} samples_ms runs with the kernels of now that the latency is estimated from
 * @property {number} tokens of the text that is made, or was last; 0 when an inference came after it
 * @property {{workload: string, settings: string} | null} kernel measured now or last
 * @property {number} measured how many kernels were measured
 * @property {string} warning the last one
 * @property {string} closed why the link is closed
 */

export const LATENCIES_SHOWN = 120;
/** So many runs in a row are timed for a figure, a profile's say: the same ones count here. */
const SERIES = 10;

/** @type {Readonly<State>} */
export const START = Object.freeze({
  phase: "connecting",
  model: "",
  threads: 1,
  backend: "",
  latencies_ms: [],
  samples_ms: [],
  tokens: 0,
  kernel: null,
  measured: 0,
  warning: "",
  closed: "",
});

/** @type {Record<Phase, string>} */
export const PHASE_TEXT = {
  connecting: "Connecting to the Studio",
  waiting: "Waiting for a model",
  loading: "Loading",
  ready: "Ready",
  running: "Running",
  measuring: "Measuring",
  closed: "Link closed",
};

/** @param {State} state */
const atRest = (state) => /** @type {Phase} */ (state.model ? "ready" : "waiting");

/** @param {State} state @returns {State} */
export function connected(state) {
  return { ...state, phase: "waiting" };
}

/** @param {State} state @param {string} why @returns {State} */
export function closed(state, why) {
  return { ...state, phase: "closed", closed: why };
}

/** @param {State} state @param {Header} request @returns {State} */
export function started(state, request) {
  switch (request.type) {
    case "load":
      return { ...state, phase: "loading", model: request.plan.name ?? "", latencies_ms: [], samples_ms: [], tokens: 0, kernel: null, measured: 0, warning: "" };
    case "weights":
      return { ...state, phase: "loading" };
    case "infer":
      return { ...state, phase: "running", latencies_ms: state.tokens ? [] : state.latencies_ms, tokens: 0 };
    case "generate":
      return { ...state, phase: "running", latencies_ms: [], tokens: 0 };
    case "probe":
    case "gpu_probe":
      return { ...state, phase: "measuring" };
    case "measure": {
      const { workload, settings } = request.challenger;
      return { ...state, phase: "measuring", kernel: { workload, settings } };
    }
    default:
      return state;
  }
}

/**
 * @param {State} state
 * @param {Header} request
 * @param {Header} reply
 * @returns {State}
 */
export function done(state, request, reply) {
  if (reply.type === "error") {
    const model = request.type === "load" ? "" : state.model;
    return { ...state, model, phase: atRest({ ...state, model }), warning: `${reply.error} ${reply.hint}`.trim() };
  }
  if (request.type === "load") return { ...state, phase: atRest(state), threads: reply.threads ?? 1, backend: backendText(request) };
  switch (reply.type) {
    case "inferred": {
      // Clocks around every step cost more than the steps of a small model.
      if (request.profile) return { ...state, phase: atRest(state) };
      const latencies_ms = [...state.latencies_ms, ...reply.runs_ms].slice(-LATENCIES_SHOWN);
      const series = reply.runs_ms.length >= SERIES;
      const samples_ms = series ? reply.runs_ms : [...state.samples_ms, ...reply.runs_ms].slice(-LATENCIES_SHOWN);
      return { ...state, phase: atRest(state), latencies_ms, samples_ms };
    }
    case "measured":
      return { ...state, phase: atRest(state), measured: state.measured + 1 };
    default:
      return { ...state, phase: atRest(state) };
  }
}

/**
 * A token came; the first waited for the prompt and tells nothing of the rate.
 * @param {State} state
 * @param {Header} token
 * @returns {State}
 */
export function came(state, token) {
  const latencies_ms = state.tokens ? [...state.latencies_ms, token.ms].slice(-LATENCIES_SHOWN) : [];
  return { ...state, latencies_ms, tokens: state.tokens + 1 };
}

/**
 * Tokens a second, by the last second of a text.
 * @param {number[]} latencies_ms
 */
export function tokenRate(latencies_ms) {
  let [ms, count] = [0, 0];
  for (; ms < 1000 && count < latencies_ms.length; count++) ms += latencies_ms[latencies_ms.length - 1 - count];
  return ms ? (1000 * count) / ms : 0;
}

/** @param {Header} load */
function backendText({ backend, implementation }) {
  if (backend !== "webgpu") return "";
  return implementation === "bridge" ? "WebGPU through the Studio" : "WebGPU";
}

/** @param {number} threads */
export const threadsText = (threads) => `${threads} thread${threads === 1 ? "" : "s"}`;

/**
 * Whether the window shows the page as its tile, which its address says.
 * @param {string} search of the address
 */
export const isTile = (search) => new URLSearchParams(search).has("tile");

/**
 * The page's figure, and what it is; the range of the last runs or tokens where it has no interval.
 *
 * A tile of the Studio's window has none for a model's runs: the window shows one, of one measurement, with
 * its interval; another one of other runs contradicts it on a busy machine.
 * @param {State} state
 * @param {boolean} tile
 * @returns {{number: string, unit: string, words: string}}
 */
export function figureOf({ latencies_ms, samples_ms, tokens }, tile) {
  if (!(tokens ? latencies_ms : samples_ms).length) return { number: "", unit: "", words: "" };
  if (tokens) {
    const rate = { number: tokenRate(latencies_ms).toFixed(1), unit: "tokens/s" };
    if (latencies_ms.length < 2) return { ...rate, words: "" };
    const range = `${timeText(Math.min(...latencies_ms))} to ${timeText(Math.max(...latencies_ms))}`;
    return { ...rate, words: `${tokens} tokens, the last ${latencies_ms.length} · ${range}` };
  }
  if (tile) return { number: "", unit: "", words: latencies_ms.length < 2 ? "" : `times of the last ${latencies_ms.length} runs` };
  const found = estimate(samples_ms);
  const [number, unit] = timeText(found.ms).split(" ");
  if (latencies_ms.length < 2) return { number, unit, words: "one inference" };
  return { number, unit, words: `median of ${found.count} · ${timeText(found.low)} to ${timeText(found.high)}` };
}

/**
 * @param {number} ms
 * @returns {string} three significant digits where that makes sense, and the unit that fits
 */
export function timeText(ms) {
  const [value, unit] = 0 < ms && ms < 0.1 ? [1000 * ms, "µs"] : [ms, "ms"];
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${unit}`;
}

/**
 * Points of a polyline; the newest value is at the right edge, zero at the bottom.
 * @param {number[]} values
 * @param {number} width
 * @param {number} height
 */
export function sparkline(values, width, height) {
  const top = Math.max(...values) * 1.1 || 1;
  const step = width / (LATENCIES_SHOWN - 1);
  const left = width - (values.length - 1) * step;
  return values.map((v, i) => `${(left + i * step).toFixed(1)},${(height * (1 - v / top)).toFixed(1)}`).join(" ");
}
