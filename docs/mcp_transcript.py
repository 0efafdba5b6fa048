"""Let a scripted client knock an orange off a table, and write what was said into mcp.md.

``python docs/mcp_transcript.py`` starts ``newtongs mcp`` as an assistant would, and replaces the
transcript and its pictures.
"""

import base64
import json
import os
import sys
import tempfile
from pathlib import Path

import anyio
import imageio.v3 as iio
from mcp import Client, StdioServerParameters
from mcp.types import ImageContent, TextContent

PAGE = Path(__file__).parent / "mcp.md"
IMAGES = Path(__file__).parent / "images"
START, END = (
    "<!-- transcript: written by docs/mcp_transcript.py -->\n",
    "<!-- end of transcript -->\n",
)
CALLS = [
    ("open", {"scene": "kitchen_table"}),
    ("look", {}),
    ("pick", {"thing": 3}),
    ("push", {"velocity": [2.5, 0.5, 1.0]}),
    ("play", {}),
    ("export", {"formats": ["html"], "folder": "orange"}),
]


async def transcript(folder: str) -> str:
    """What a client and the server said; pictures are written on the way."""
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "newtongs", "mcp", folder], env=dict(os.environ)
    )
    out = []
    async with Client(server) as client:
        for name, given in CALLS:
            result = await client.call_tool(name, given)
            lines = [f"> {name} {json.dumps(given)}"]
            pictures = [x for x in result.content if isinstance(x, ImageContent)]
            lines += [x.text for x in result.content if isinstance(x, TextContent)]
            out.append("```text\n" + "\n".join(lines).replace(folder, "/home/me/scenes") + "\n```")
            for i, shown in enumerate(pictures):
                file = f"mcp_{name}_{i}.jpg" if i else f"mcp_{name}.jpg"
                pixels = iio.imread(base64.b64decode(shown.data))
                iio.imwrite(IMAGES / file, pixels, quality=85)
                out.append(f"![What {name} returned](images/{file})")
    return "\n\n".join(out)


def main() -> None:
    """Write the transcript into the page."""
    with tempfile.TemporaryDirectory() as folder:
        said = anyio.run(transcript, str(Path(folder).resolve()))
    head, _, rest = PAGE.read_text().partition(START)
    PAGE.write_text(head + START + "\n" + said + "\n\n" + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()
