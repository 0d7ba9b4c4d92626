/**
 * onnxruntime-web's own tests against our entry in its place: `node run.mjs CHECKOUT OUT NNJIT`.
 * CHECKOUT is a copy of microsoft/onnxruntime; list.json says which of its tests of the public API
 * run, which do not and why. A test file that is in neither list, or a test that fails, ends with 1.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import ts from "typescript";

const [checkout, out, nnjit] = process.argv.slice(2).map((path) => resolve(path));
const here = import.meta.dirname;
const resources = resolve(here, "../../resources");
const ORT = join(resources, "runtime/ort.js");
const { runs, not } = JSON.parse(readFileSync(join(here, "list.json"), "utf8"));
const TESTS = ["js/common/test/**/*.ts", "js/web/test/unittests/**/*.ts", "js/web/test/e2e/{browser,node}-test-*"];

/** The text of a file of theirs, with our entry in place of their package. @param {string} file */
const ours = (file) => readFileSync(join(checkout, file), "utf8").replaceAll(/(from ['"])onnxruntime-common(['"])/g, (_, a, b) => a + ORT + b);

/** @param {string} name @param {string} text @returns {string} its path */
function put(name, text) {
  const path = join(out, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  return path;
}

/** Runs a module of tests in Node. @param {string} path @param {string[]} flags of Node @returns {{passed: number, failed: number, said: string}} */
function test(path, flags = []) {
  const { stdout, stderr } = spawnSync(process.execPath, [...flags, "--test-reporter=tap", "--test-timeout=60000", "--import", join(here, "globals.mjs"), path], { encoding: "utf8" });
  const count = (/** @type {string} */ name) => Number(new RegExp(`^# ${name} (\\d+)`, "m").exec(stdout)?.[1] ?? 0);
  return { passed: count("pass"), failed: count("fail") + count("cancelled"), said: stdout + stderr };
}

/** @type {Record<string, (entry: any) => {passed: number, failed: number, said: string}>} */
const KINDS = {
  unit({ file, flags }) {
    const js = (/** @type {string} */ text) => ts.transpileModule(text, { compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 } }).outputText;
    const helper = "js/common/test/unit-tests/common";
    put(`${helper}.js`, js(ours(`${helper}.ts`)));
    return test(put(file.replace(/ts$/, "js"), js(ours(file))), flags);
  },
  types({ file }) {
    const text = ours(file);
    const path = put(file, text);
    const options = { allowJs: true, noEmit: true, strict: true, skipLibCheck: true, target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ES2022, moduleResolution: ts.ModuleResolutionKind.Bundler, types: [resolve(here, "../../node_modules/@webgpu/types")] };
    const program = ts.createProgram([path], options);
    const found = ts.getPreEmitDiagnostics(program, program.getSourceFile(path)).map(({ code, start = 0, file: at }) => `${at?.getLineAndCharacterOfPosition(start).line}|${code}`);
    const wanted = text.split("\n").flatMap((line, i) => {
      const [, offset, code] = /^\s*\/\/ \{type-tests\}\|fail\|(\d+)\|(\d+)/.exec(line) ?? [];
      return code ? [`${i + Number(offset)}|${code}`] : [];
    });
    const same = `${found.sort()}` === `${wanted.sort()}`;
    return { passed: Number(same), failed: Number(!same), said: `errors of types: ${found}; wanted: ${wanted}` };
  },
  web({ file, threads, proxy = false }) {
    const model = join(out, "model");
    if (!existsSync(`${model}.zip`)) execFileSync(nnjit, ["export", join(checkout, "js/web/test/e2e/model.onnx"), "-o", `${model}.zip`, "--database", join(out, "k.db")], { stdio: "pipe" });
    execFileSync("unzip", ["-qo", `${model}.zip`, "-d", model]);
    const set = `import * as ort from "${ORT}"; import { page } from "${join(here, "globals.mjs")}";\nawait page("${out}"); Object.assign(ort.env.wasm, { numThreads: ${threads}, proxy: ${proxy} });\n`;
    const text = set + ours("js/web/test/e2e/common.js") + ours(file);
    return test(put(`web/${threads}${proxy ? "p" : ""}.${file.split("/").at(-1)}.mjs`, text));
  },
};

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
let wrong = 0;
const ran = { files: new Set(), tests: 0 };
for (const entry of runs) {
  const name = [entry.file, entry.threads && `${entry.threads} threads`, entry.proxy && "proxy"].filter(Boolean).join(", ");
  if (!existsSync(join(checkout, entry.file))) {
    console.log(`absent  ${name}`);
    wrong++;
    continue;
  }
  const { passed, failed, said } = KINDS[entry.kind](entry);
  const good = passed > 0 && failed === 0;
  console.log(`${good ? "passed" : "FAILED"}  ${name}: ${passed} of ${passed + failed}`);
  if (!good) console.log(said.slice(-3000));
  wrong += Number(!good);
  ran.files.add(entry.file);
  ran.tests += passed;
}
const left = TESTS.flatMap((pattern) => globSync(pattern, { cwd: checkout })).filter((file) => !ran.files.has(file)).sort();
for (const file of left) {
  const why = not.find((/** @type {{files: string}} */ { files }) => new RegExp(files).test(file))?.why;
  console.log(`${why ? "not run" : "UNLISTED"} ${file}${why ? `: ${why}` : ""}`);
  wrong += Number(!why);
}
console.log(`${ran.tests} tests of ${ran.files.size} files passed, ${left.length} files were not run.`);
process.exitCode = Number(wrong > 0);
