/** What a visitor gives the model, by the kinds that the manifest says. */
import { fetchFile, transport } from "../sdk/bundle_fetch.js";
import { Tensor } from "../sdk/session.js";
import { arraySource } from "./arrays.js";
import { pictureSource } from "./picture.js";
import { soundSource } from "./sound.js";

/** @import { InferenceSession } from "../sdk/session.js" */
/** @import { Manifest } from "../types/engine.js" */
/** @import { Port, Source } from "./types.js" */
export const base = new URL("manifest.json", document.baseURI);

/** @param {Manifest} manifest @param {"inputs" | "outputs"} side @param {string} name */
export const kindOf = (manifest, side, name) => manifest.demo?.[side].find((port) => port.name === name)?.kind ?? (side === "inputs" ? "array" : "numbers");

/** @param {InferenceSession} session @returns {Promise<Source[]>} */
export async function sourcesOf(session) {
  const { manifest } = session;
  const samples = await samplesOf(manifest);
  /** @type {Source[]} */
  const sources = [];
  /** @type {Record<string, {port: Port, sample: Tensor | null}[]>} */
  const texts = { text: [], mask: [], types: [], positions: [] };
  session.inputMetadata.forEach(({ name, type }, i) => {
    const port = { name, type, shape: manifest.inputs[i].shape };
    const sample = samples[name] ? new Tensor(type, samples[name], port.shape) : null;
    const kind = kindOf(manifest, "inputs", name);
    if (kind in texts) texts[kind].push({ port, sample });
    else if (kind === "picture") sources.push(pictureSource(port, sample));
    else if (kind === "sound") sources.push(soundSource(port, sample));
    else sources.push(arraySource(port, sample));
  });
  if (texts.text.length && manifest.tokenizer) {
    const { textSource } = await import("./text/input.js"); // only bundles with a tokenizer hold it
    const compared = session.outputNames.some((name) => kindOf(manifest, "outputs", name) === "similarity");
    sources.unshift(textSource(JSON.parse(new TextDecoder().decode(await fetchFile(base, manifest.tokenizer))), texts, compared));
  }
  return sources;
}

/** Sample inputs by name. @param {Manifest} manifest @returns {Promise<Record<string, any>>} */
async function samplesOf(manifest) {
  const found = manifest.samples?.inputs ?? [];
  const arrays = await Promise.all(
    found.map(async ({ name, dtype, file }) => {
      const response = await transport.fetch(new URL(file, base));
      if (!response.ok) throw new Error(`The sample input ${file} is missing.`);
      const { ARRAYS } = await import("../engine/plan.js");
      return [name, new ARRAYS[dtype](await response.arrayBuffer())];
    }),
  );
  return Object.fromEntries(arrays);
}

/** Names of classes. @param {Manifest} manifest */
export async function labelsOf(manifest) {
  if (!manifest.labels) return [];
  return new TextDecoder().decode(await fetchFile(base, manifest.labels)).trimEnd().split(/\r?\n/);
}
