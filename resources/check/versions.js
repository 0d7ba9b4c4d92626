/**
 * Runs two bundles of one model in turns in this page, on the same inputs. Its text is given to the
 * browser as one expression.
 */
async (/** @type {{a: string, b: string, seconds: number, threads: number, seed: number}} */ { a, b, seconds, threads, seed }) => {
  const SMALLEST = 3; // rounds
  const LEAST_MS = 2; // of a sample
  /** @param {string} manifest */
  const open = async (manifest) => {
    const { InferenceSession, Tensor } = await import(new URL("nnjit.js", manifest).href);
    const session = await InferenceSession.create(manifest, { executionProviders: ["wasm"], numThreads: threads });
    return { session, Tensor, manifest };
  };
  /** A small generator, the same for both (mulberry32). */
  let state = seed;
  const random = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  try {
    const [one, other] = [await open(a), await open(b)];
    const inputs = (/** @type {typeof one} */ { session }) => session.inputMetadata.map((/** @type {{name: string, type: string}} */ { name, type }, /** @type {number} */ i) => ({ name, type, shape: session.manifest.inputs[i].shape }));
    const wanted = inputs(one);
    if (JSON.stringify(wanted) !== JSON.stringify(inputs(other))) throw new Error("The bundles take different inputs.");
    const samples = one.session.manifest.samples?.inputs ?? [];
    /** @type {Record<string, ArrayBuffer | number[]>} */
    const values = {};
    for (const { name, type, shape } of wanted) {
      const sample = samples.find((/** @type {{name: string}} */ each) => each.name === name);
      const length = shape.reduce((/** @type {number} */ n, /** @type {number} */ d) => n * d, 1);
      values[name] = sample
        ? await (await fetch(new URL(sample.file, a))).arrayBuffer()
        : Array.from({ length }, () => (type.startsWith("float") ? random() * 2 - 1 : 1));
    }
    const feedsFor = (/** @type {typeof one} */ { Tensor }) =>
      Object.fromEntries(
        wanted.map((/** @type {{name: string, type: string, shape: number[]}} */ { name, type, shape }) => {
          const given = values[name];
          if (Array.isArray(given)) return [name, new Tensor(type, given, shape)];
          const Typed = new Tensor(type, [], [0]).data.constructor;
          return [name, new Tensor(type, new Typed(given.slice(0)), shape)];
        }),
      );
    const sides = [
      { ...one, feeds: feedsFor(one), times: /** @type {number[]} */ ([]) },
      { ...other, feeds: feedsFor(other), times: /** @type {number[]} */ ([]) },
    ];
    const [ours, theirs] = [await sides[0].session.run(sides[0].feeds), await sides[1].session.run(sides[1].feeds)];
    let error = 0;
    for (const name of Object.keys(ours)) {
      const [x, y] = [ours[name]?.data, theirs[name]?.data];
      if (!y || x.length !== y.length) throw new Error(`The bundles differ in the output ${name}.`);
      let [most, scale] = [0, 0];
      for (let i = 0; i < x.length; i++) {
        const [v, w] = [Number(x[i]), Number(y[i])];
        if (Object.is(v, w)) continue;
        most = Math.max(most, Number.isFinite(v - w) ? Math.abs(v - w) : Number.MAX_VALUE);
        scale = Math.max(scale, Number.isFinite(v) ? Math.abs(v) : 0);
      }
      for (let i = 0; i < x.length; i++) scale = Math.max(scale, Math.abs(Number(x[i])) || 0);
      error = Math.max(error, most / (scale || 1));
    }
    // a sample of several runs where one is short for the browser's clock
    const first = performance.now();
    await sides[0].session.run(sides[0].feeds);
    const runs = Math.ceil(LEAST_MS / Math.max(performance.now() - first, 0.01));
    const end = performance.now() + 1000 * seconds;
    for (let round = 0; round < SMALLEST || performance.now() < end; round++)
      for (const side of round % 2 ? [...sides].reverse() : sides) {
        const before = performance.now();
        for (let i = 0; i < runs; i++) await side.session.run(side.feeds);
        side.times.push((performance.now() - before) / runs);
      }
    return JSON.stringify({ a_ms: sides[0].times, b_ms: sides[1].times, error, tier: one.session.tier, threads: one.session.threads });
  } catch (e) {
    return JSON.stringify({ problem: e instanceof Error ? e.message : String(e) });
  }
};
