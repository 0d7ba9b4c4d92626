/** One bundle at several sizes: how far its outputs are from given ones. */
import { conduct, fetchInputs, fetchJob, file, report } from "../page.js";
import { openOurs } from "../sessions.js";

/**
 * The largest difference of an element, by the largest value that is expected; infinite where shapes differ.
 * @param {{type: string, data: any, dims: readonly number[]}} got @param {{data: any, dims: number[]}} expected
 */
function error(got, { data, dims }) {
  if (String(got.dims) !== String(dims)) return Infinity;
  const found = got.type === "float16" ? new data.constructor(got.data.buffer, got.data.byteOffset, data.length) : got.data;
  let [off, scale] = [0, 1e-30];
  data.forEach((/** @type {number | bigint} */ value, /** @type {number} */ i) => {
    off = Math.max(off, Math.abs(Number(found[i]) - Number(value)));
    scale = Math.max(scale, Math.abs(Number(value)));
  });
  return off / scale;
}

conduct(async () => {
  const { runs, threads } = await fetchJob();
  const { session, feeds } = await openOurs(file("bundle/manifest.json"), threads);
  const errors = [];
  for (const { inputs, outputs } of runs) {
    const got = await session.run(feeds(await fetchInputs({ inputs })));
    const expected = await fetchInputs({ inputs: outputs });
    errors.push(String(Math.max(...expected.map((each) => error(got[each.name], each)))));
  }
  await report({ type: "done", errors });
});
