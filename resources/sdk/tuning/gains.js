/** What tuning gained for a session, drawn into an element of the page. Nothing is sent. */

/** @import { TuningReport } from "./tuning.js" */
/** @import { Result } from "./tuner.js" */

const EVERY_MS = 1000;
const WORDS = /** @type {Record<string, string>} */ ({
  waiting: "waits for inferences",
  working: "is trying kernels",
  done: "has tried every kernel",
  "budget used": "has used the budget of this visit",
  stopped: "was stopped",
});

/**
 * Draws a session's gains, again and again until the function that it returns is called.
 * @param {HTMLElement} element its contents are replaced
 * @param {{tuningReport: () => TuningReport | null}} session
 * @returns {() => void} ends it
 */
export function showGains(element, session) {
  const draw = () => element.replaceChildren(...partsOf(session.tuningReport(), element.ownerDocument));
  const timer = setInterval(draw, EVERY_MS);
  draw();
  return () => {
    clearInterval(timer);
    draw(); // as it was in the end
  };
}

/** The gain with its interval, or that there is none yet. @param {TuningReport} report */
export const gainText = ({ gain: { speedup, low, high } }) => (speedup === 1 ? "no gain yet" : `${speedup.toFixed(2)}x (${low.toFixed(2)} to ${high.toFixed(2)})`);

/**
 * @param {TuningReport | null} report
 * @param {Document} page
 * @returns {HTMLElement[]}
 */
function partsOf(report, page) {
  const make = (/** @type {string} */ tag, /** @type {string} */ text, /** @type {HTMLElement[]} */ ...inner) => {
    const made = page.createElement(tag);
    made.append(...(text ? [text] : []), ...inner);
    return made;
  };
  if (!report) return [make("p", "This session is not tuned.")];
  const { device, latency, tried, rolledBack, visits, spentMs } = report;
  const { before, now } = latency;
  const ms = (/** @type {number} */ x) => `${x.toPrecision(3)} ms`;
  const facts = [
    ["Tuning", WORDS[report.state] ?? report.state],
    ["Model, by runs in turns", gainText(report)],
    ["First inferences", before.count ? `${ms(before.median_ms)}, 95 % below ${ms(before.p95_ms)}` : "none yet"],
    ["Last inferences", now.count ? `${ms(now.median_ms)}, 95 % below ${ms(now.p95_ms)}` : "none yet"],
    ["Device", `${device.browser}, ${device.tier}, ${device.threads} ${device.threads === 1 ? "thread" : "threads"}`],
    ["This visit", `${tried.length} tried, ${rolledBack} taken back, ${Math.round(spentMs)} ms of work, visit ${visits}`],
    ["Times sent", report.shared || "nowhere"],
    ...(report.queue ? [["Kernels asked of", `${report.queue.from}: ${report.queue.kernels} came${report.queue.problem && `. ${report.queue.problem}`}`]] : []),
  ];
  const list = make("dl", "", ...facts.flatMap(([name, value]) => [make("dt", name), make("dd", value)]));
  if (!tried.length) return [list];
  const row = (/** @type {Result} */ r) => [r.workload.split("#")[0], r.settings, r.outcome, r.isolated ? `${r.isolated.speedup.toFixed(2)}x` : "", r.inPlace ? `${r.inPlace.speedup.toFixed(2)}x` : ""];
  const head = ["Workload", "Settings", "Outcome", "Kernel alone", "Model"].map((name) => {
    const cell = make("th", name);
    cell.setAttribute("scope", "col");
    return cell;
  });
  const rows = tried.map((r) => make("tr", "", ...row(r).map((text) => make("td", text))));
  return [list, make("table", "", make("caption", "Kernels tried in this visit"), make("thead", "", make("tr", "", ...head)), make("tbody", "", ...rows))];
}
