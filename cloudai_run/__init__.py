"""Run and compare LLM training benchmarks on GPU clusters, on top of NeMo-Run and Fiddle."""

from pathlib import Path

# In a source checkout recipes/ and executors/ stand beside this folder and not in it.
_here = Path(__file__).parent
if not (_here / "recipes").is_dir():
    __path__.append(str(_here.parent))
