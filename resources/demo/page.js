/** The page of a bundle: loads it, takes inputs by their kind, draws outputs, shows time and engine. */
import { median } from "../engine/quantile.js";
import { transport } from "../sdk/bundle_fetch.js";
import { InferenceSession } from "../sdk/session.js";
import { byId, make } from "./dom.js";
import { factsOf } from "./facts.js";
import { base, labelsOf, sourcesOf } from "./inputs.js";
import { drawOutputs } from "./outputs.js";

/** @import { Source } from "./types.js" */

const BUDGET_MS = 2000;
const MAX_RUNS = 20;
const MOST_TOKENS = 64;

/** What tests and the curious may look at. @type {Record<string, any>} */
const seen = { session: null, lastInputs: null, lastOutputs: null, runsMs: [], firstMs: 0 };
Object.assign(globalThis, { nnjit: seen });

const note = byId("note");
const run_button = /** @type {HTMLButtonElement} */ (byId("run"));

/** @param {"loading" | "running" | "done" | "failed"} state @param {string} text */
function enter(state, text) {
  document.body.dataset.state = state;
  document.title = `${state}: ${byId("model").textContent}`;
  byId("state").textContent = text;
  run_button.disabled = state === "loading" || state === "running";
}

/** @param {unknown} thrown */
function fail(thrown) {
  note.textContent = thrown instanceof Error ? thrown.message : String(thrown);
  note.hidden = false;
  enter("failed", "Failed");
}

/** Lets the page draw before it is busy. */
const breath = () => new Promise((resume) => setTimeout(resume, 20));

/** @param {InferenceSession} session @param {Source[]} sources @param {string[]} labels */
async function run(session, sources, labels) {
  note.hidden = true;
  enter("running", "Running");
  await breath();
  const feeds = Object.assign({}, ...(await Promise.all(sources.map((source) => source.feeds()))));
  let outputs = await session.run(feeds); // the first run warms up
  seen.firstMs ||= performance.now();
  const start = performance.now();
  /** @type {number[]} */
  const runs_ms = [];
  while (runs_ms.length < MAX_RUNS && (!runs_ms.length || performance.now() - start < BUDGET_MS)) {
    const before = performance.now();
    outputs = await session.run(feeds);
    runs_ms.push(performance.now() - before);
    await new Promise((resume) => setTimeout(resume)); // scrolling and typing go on
  }
  Object.assign(seen, { lastInputs: feeds, lastOutputs: outputs, runsMs: runs_ms });
  time(runs_ms, "runs");
  byId("feeds").textContent = `on ${[...new Set(sources.map((source) => source.label()))].join(", ")}`;
  byId("outputs").replaceChildren(...(await drawOutputs({ session, sources, labels, outputs })));
  finish(session);
}

/** The median in large figures. @param {number[]} times @param {string} what */
function time(times, what) {
  const sorted = [...times].sort((a, b) => a - b);
  const middle = median(times);
  byId("latency").textContent = middle >= 10 ? middle.toFixed(1) : middle.toFixed(2);
  byId("runs").textContent = `median of ${sorted.length} ${what}, ${sorted[0].toFixed(2)} to ${sorted[sorted.length - 1].toFixed(2)} ms`;
}

/** @param {InferenceSession} session */
function finish(session) {
  byId("engine").replaceChildren(...factsOf(session, seen.firstMs));
  for (const id of ["outputs", "facts"]) byId(id).hidden = false;
  enter("done", "Done");
}

/** A decoder goes on with the text, token by token. @param {InferenceSession} session @param {Source} source */
async function goOn(session, source) {
  const words = source.words;
  if (!words) return;
  note.hidden = true;
  enter("running", "Writing");
  const made = make("p", { className: "made", "aria-live": "polite" }, words.text());
  byId("outputs").replaceChildren(make("h2", {}, "Text"), made);
  byId("outputs").hidden = false;
  const ids = words.tokenizer.encode(words.text()).ids;
  /** @type {number[]} */
  const new_ids = [];
  /** @type {number[]} */
  const times = [];
  for await (const { id, ms } of session.generate(ids, { maxTokens: MOST_TOKENS })) {
    seen.firstMs ||= performance.now();
    new_ids.push(id);
    times.push(ms);
    made.textContent = words.text() + words.tokenizer.decode(new_ids);
    await new Promise((resume) => setTimeout(resume));
  }
  Object.assign(seen, { runsMs: times, lastOutputs: new_ids });
  if (times.length) time(times, "tokens");
  finish(session);
}

/** Once the visitor opens it. */
async function comparePeer() {
  const text = byId("peer-text");
  text.textContent = "Loading ONNX Runtime Web";
  try {
    const { timePeer } = await import("./peer.js");
    const { ms, runs, version } = await timePeer(seen.lastInputs);
    text.textContent = `ONNX Runtime Web ${version}: median of ${runs} runs ${ms.toFixed(2)} ms, one thread. Both take turns with all else on this machine: this is no measurement.`;
  } catch (e) {
    text.textContent = e instanceof Error ? e.message : String(e);
  }
}

async function main() {
  const manifest = await (await transport.fetch(base)).json();
  byId("model").textContent = manifest.name;
  const executionProviders = manifest.gpu_kernels ? ["webgpu", "wasm"] : ["wasm"];
  const session = await InferenceSession.create(base, { executionProviders, numThreads: 0 });
  seen.session = session;
  const [sources, labels] = [await sourcesOf(session), await labelsOf(session.manifest)];
  const writer = session.manifest.generation && sources.find((source) => source.words);
  byId("sources").replaceChildren(...(writer ? [writer] : sources).map(({ element }) => element));
  byId("inputs").hidden = false;
  byId("peer").hidden = Boolean(writer);
  byId("peer").addEventListener("toggle", comparePeer, { once: true });
  const act = () => (writer ? goOn(session, writer) : run(session, sources, labels)).catch(fail);
  byId("inputs").addEventListener("submit", (event) => {
    event.preventDefault();
    if (!run_button.disabled) act();
  });
  await act();
}

// `nnjit check` opens the page for its headers alone, and then runs the model itself
if (location.hash === "#check") enter("done", "Waiting");
else main().catch(fail);
