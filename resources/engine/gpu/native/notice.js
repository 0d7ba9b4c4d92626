/** Notices at once that the GPU has finished. */

/** Awake for so long, which is more than a group of samples takes (studio/gpu/timing.js); then a look every few ms, so that the core is left to others. */
const AWAKE_MS = 80;
const PAUSE_MS = 2;
/** Between two questions: each takes the GPU process time, which answers all of them before it sees what the page sends next. */
const ASK_MS = 0.1;

/** @type {MessageChannel | null} one for all waits */
let channel = null;
/** @type {(() => void)[]} */
let turns = [];

/** A turn of the event loop, far shorter than a timer's. */
function turn() {
  if (!channel) {
    channel = new MessageChannel();
    channel.port1.onmessage = () => {
      const waiting = turns;
      turns = [];
      for (const resolve of waiting) resolve();
      if (!turns.length) /** @type {any} */ (channel?.port1).unref?.(); // Node would not end
    };
  }
  /** @type {any} */ (channel.port1).ref?.();
  const { port2 } = channel;
  return new Promise((resolve) => {
    turns.push(() => resolve(undefined));
    if (turns.length === 1) port2.postMessage(0);
  });
}

/**
 * Waits for a promise of the GPU. Browsers poll for finished work, up to 2.5 ms late, unless
 * the page keeps talking to the GPU process: `poke` does, every {@link ASK_MS}, until it says no.
 *
 * @template T
 * @param {Promise<T>} finished
 * @param {() => boolean} poke
 * @returns {Promise<T>}
 */
export async function notice(finished, poke, now = () => performance.now()) {
  let over = false;
  const end = () => void (over = true);
  finished.then(end, end);
  const start = now();
  let asked = -Infinity;
  await Promise.resolve();
  while (!over) {
    if (now() - start < AWAKE_MS) await turn();
    else await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    if (over || now() - asked < ASK_MS) continue;
    asked = now();
    if (!poke()) break;
  }
  return finished;
}
