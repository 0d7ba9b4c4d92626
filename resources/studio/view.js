/** Draws the state into index.html. */
import { estimate } from "./estimate.js";
import { bestTier } from "../engine/features.js";
import { ENGINE_VERSION } from "../engine/version.js";
import { formatMs, PHASE_TEXT, sparkline, threadsText, tokenRate } from "./state.js";

/** @import { State } from "./state.js" */

const DRAW_EVERY_MS = 100;
const SPARK = { width: 480, height: 72 };

/** @param {string} id */
const element = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/**
 * Shows at most ten states a second, so that drawing stays out of the measurements' way.
 * @returns {(state: State) => void}
 */
export function makeView() {
  drawBadges();
  /** @type {State | null} */
  let next = null;
  return (state) => {
    if (!next)
      setTimeout(() => {
        if (next) draw(next);
        next = null;
      }, DRAW_EVERY_MS);
    next = state;
  };
}

/** @param {State} state */
function draw(state) {
  document.body.dataset.phase = state.phase;
  element("phase").textContent = PHASE_TEXT[state.phase];
  element("model").textContent = state.model || "No model yet";
  element("model").title = state.model;
  element("threads").textContent = state.backend || threadsText(state.threads);
  drawLatency(state);
  element("kernel").hidden = !state.kernel;
  if (state.kernel) {
    element("kernel-title").textContent = state.phase === "measuring" ? "Measuring now" : "Measured last";
    element("kernel-workload").textContent = state.kernel.workload;
    element("kernel-settings").textContent = state.kernel.settings;
    element("kernel-count").textContent = `${state.measured} measured`;
  }
  const note = state.closed || state.warning;
  element("note").textContent = note;
  element("note").hidden = !note;
}

/** @param {State} state */
function drawLatency({ latencies_ms, samples_ms, tokens }) {
  const any = (tokens ? latencies_ms : samples_ms).length > 0;
  const found = any && !tokens ? estimate(samples_ms) : null;
  element("latency").textContent = any ? (found ? formatMs(found.ms) : tokenRate(latencies_ms).toFixed(1)) : "–";
  element("unit").textContent = tokens ? "tokens/s" : "ms";
  element("unit").hidden = !any;
  element("spark").toggleAttribute("hidden", latencies_ms.length < 2);
  if (latencies_ms.length < 2) {
    element("spark-range").textContent = any && !tokens ? "one inference" : "";
    return;
  }
  const points = sparkline(latencies_ms, SPARK.width, SPARK.height);
  const first = points.slice(0, points.indexOf(","));
  element("spark-line").setAttribute("points", points);
  element("spark-area").setAttribute("points", `${first},${SPARK.height} ${points} ${SPARK.width},${SPARK.height}`);
  const [low, high] = found ? [found.low, found.high] : [Math.min(...latencies_ms), Math.max(...latencies_ms)];
  const range = `${formatMs(low)} to ${formatMs(high)} ms`;
  const what = found ? `median of ${found.count}` : `${tokens} tokens, the last ${latencies_ms.length}`;
  element("spark-range").textContent = `${what} · ${range}`;
}

function drawBadges() {
  const tier = bestTier();
  badge(tier ?? "no Wasm SIMD", tier !== null);
  badge(crossOriginIsolated ? "cross-origin isolated" : "not isolated", crossOriginIsolated);
  badge(threadsText(1), true).id = "threads";
  badge(`engine ${ENGINE_VERSION}`, true);
}

/** @param {string} text @param {boolean} good */
function badge(text, good) {
  const item = document.createElement("li");
  item.textContent = text;
  item.className = good ? "badge" : "badge warn";
  element("badges").append(item);
  return item;
}
