/** Sound: from a file, or from the microphone. */
import { Tensor } from "../sdk/session.js";
import { button, choice, make, wave } from "./dom.js";

/** @import { Port, Source } from "./types.js" */

const RATES = [8000, 16000, 22050, 24000, 44100, 48000];
const MOST_S = 30;

/**
 * One channel of a recording at a rate.
 * @param {ArrayBuffer} bytes of any kind of file that the browser reads
 * @param {number} rate
 */
async function decode(bytes, rate) {
  const audio = await new OfflineAudioContext(1, 1, rate).decodeAudioData(bytes);
  const mixed = new Float32Array(audio.length);
  for (let c = 0; c < audio.numberOfChannels; c++) audio.getChannelData(c).forEach((v, i) => (mixed[i] += v / audio.numberOfChannels));
  return mixed;
}

/** As many samples as the model takes: the first ones, then silence. @param {ArrayLike<number>} samples @param {number} size */
export const fitted = (samples, size) => Float32Array.from({ length: size }, (_, i) => samples[i] ?? 0);

/**
 * @param {Port} port
 * @param {Tensor | null} sample
 * @returns {Source}
 */
export function soundSource({ name, type, shape }, sample) {
  const size = shape.reduce((n, d) => n * d, 1);
  let words = sample ? "the sample sound" : "a tone of 440 Hz";
  let samples = sample ? Float32Array.from(sample.data, Number) : Float32Array.from({ length: size }, (_, i) => 0.3 * Math.sin((i * 880 * Math.PI) / 16000));
  const rate = choice("Samples in a second", RATES.map((r) => [String(r), `${r} Hz`]), "16000");
  const said = make("span", { className: "quiet", role: "status" });
  const drawn = make("div");
  const draw = () => drawn.replaceChildren(wave(samples, `Wave of ${words}, ${size} samples`));
  /** @param {Blob | null | undefined} file @param {string} called */
  const open = async (file, called) => {
    if (!file) return;
    try {
      const found = await decode(await file.arrayBuffer(), Number(rate.control.value));
      samples = fitted(found, size);
      words = called;
      said.textContent = found.length > size ? `The first ${size} of ${found.length} samples go in.` : "";
      draw();
    } catch {
      said.textContent = "This file is no sound that the browser can read.";
    }
  };
  const file = make("input", { type: "file", accept: "audio/*", "aria-label": `Sound file for ${name}` });
  file.addEventListener("change", () => open(file.files?.[0], "this file"));
  draw();
  const title = make("h2", {}, name);
  const row = make("div", { className: "row" }, file, microphone((blob) => open(blob, "this recording"), said), said);
  return {
    element: make("div", { className: "part" }, title, drawn, row, rate.element),
    label: () => words,
    feeds: async () => ({ [name]: new Tensor(type, type === "float32" ? samples : Array.from(samples), shape) }),
  };
}

/** A button that records until it is pressed again. @param {(recording: Blob) => void} take @param {HTMLElement} said */
function microphone(take, said) {
  /** @type {MediaRecorder | null} */
  let recorder = null;
  const control = button("Microphone", async () => {
    if (recorder) return recorder.stop();
    try {
      const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
      /** @type {Blob[]} */
      const parts = [];
      const recording = new MediaRecorder(stream);
      recording.ondataavailable = ({ data }) => parts.push(data);
      recording.onstop = () => {
        for (const track of stream.getTracks()) track.stop();
        recorder = null;
        control.textContent = "Microphone";
        take(new Blob(parts));
      };
      recording.start();
      recorder = recording;
      setTimeout(() => recording.state === "recording" && recording.stop(), MOST_S * 1000);
      control.textContent = "Stop recording";
      said.textContent = `At most ${MOST_S} s.`;
    } catch (e) {
      said.textContent = navigator.mediaDevices ? `No microphone: ${/** @type {Error} */ (e).message}.` : "Browsers give the microphone over https and on localhost only.";
    }
  });
  return control;
}
