/** Draws the state into index.html. */
import { bestTier } from "../engine/features.js";
import { ENGINE_VERSION } from "../engine/version.js";
import { figureOf, isTile, PHASE_TEXT, sparkline, START, threadsText } from "./state.js";

/** @import { State } from "./state.js" */

const DRAW_EVERY_MS = 100;
const SPARK = { width: 480, height: 72 };
const TILE = isTile(location.search);

/** @param {string} id */
const element = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/**
 * Shows at most ten states a second, so that drawing stays out of the measurements' way.
 * @returns {(state: State) => void}
 */
export function makeView() {
  drawBadges();
  let due = false;
  /** @type {State} */
  let latest = START;
  const show = () => {
    due = false;
    draw(latest);
  };
  return (state) => {
    if (!due) setTimeout(show, DRAW_EVERY_MS);
    [due, latest] = [true, state];
  };
}

/** @param {State} state */
function draw(state) {
  document.body.dataset.phase = state.phase;
  element("phase").textContent = PHASE_TEXT[state.phase];
  element("model").textContent = state.model || "The model that you open runs here";
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
function drawLatency(state) {
  const { number, unit, words } = figureOf(state, TILE);
  element("number").hidden = !number;
  element("latency").textContent = number;
  element("unit").textContent = unit;
  element("spark-range").textContent = words;
  const { latencies_ms } = state;
  element("spark").toggleAttribute("hidden", latencies_ms.length < 2);
  if (latencies_ms.length < 2) return;
  const points = sparkline(latencies_ms, SPARK.width, SPARK.height);
  const first = points.slice(0, points.indexOf(","));
  element("spark-line").setAttribute("points", points);
  element("spark-area").setAttribute("points", `${first},${SPARK.height} ${points} ${SPARK.width},${SPARK.height}`);
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
