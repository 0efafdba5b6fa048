"""``newtongs animate`` and ``newtongs replay``: from a splat file to a moving splat."""

import shlex
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import tyro

from ..base.errors import InputError
from .apps import app
from .console import check_folder, check_scene, progress_bar
from .push_text import parse_push, report, short
from .viewing import CameraPath, FilmCamera, fitting_view, hidden, hidden_line

if TYPE_CHECKING:
    from ..pipeline.source import Source
    from ..pipeline.spec import ObjectSpec, Physics, Place
    from ..scene.animation import Animation
    from ..scene.gaussians import GaussianScene

    Scenes = Sequence[GaussianScene]

Color = tuple[float, float, float]
WHITE: Color = (1.0, 1.0, 1.0)
LARGEST_SIDE = 8192  # pixels per side
COMPRESS = {"auto": None, "all": True, "none": False}
REACHED = 0.25  # physics units by which a goal may be missed: half the size of an object
PAPER_WORDS = {"dynamics": "learned", "scale": "free", "contact": "paper", "framing": "paper"}
REFUSED_BY_PAPER = (
    "checkpoint", "hollow", "keep_ghosts", "friction", "loose", "motion", "plane", "box",
    "background", "height", "ground", "at", "turn", "lift", "meters_per_unit", "azimuth",
    "elevation", "camera_path", "gravity", "copies",
)  # fmt: skip


@dataclass(frozen=True)
class Picture:
    """Flags for camera, renderer and formats, shared by animate and replay."""

    locks_out: ClassVar[bool] = False  # several runs may write into one folder; files are locked
    formats: tuple[str, ...] = ("mp4", "png", "json", "glb", "html")
    """Formats to write, separated by spaces or commas: mp4, gif, png (a sheet of frames), json
    (with an npz: enough to replay), glb (KHR_gaussian_splatting), usd, ply (one file per frame:
    large), html (a page that plays the animation)."""
    size: tuple[int, int] = (512, 512)
    """Width and height of the pictures in pixels."""
    azimuth: float | None = None
    """Camera position around the object, in degrees. At 0 the camera looks along -z, with x to the
    right. Default: 25, or another side if the object would be hidden from there."""
    elevation: float | None = None
    """Angle at which the camera looks down, in degrees. Default: 14, or more if the object would be
    hidden."""
    camera_path: CameraPath = "still"
    """still: the camera does not move. orbit: it turns by 90 degrees around the motion. follow: it
    moves with the object. Applies to films and sheets; html starts with the first view."""
    framing: Literal["fit", "paper"] | None = None
    """fit (the default): the nearest camera that sees the whole motion. paper (the default of
    --paper): the paper's orbit of four views, radius 5 and elevation 1.2 around the mean position;
    films and sheets of views 1 to 3 are written as NAME_view1 to NAME_view3."""
    cameras: Path | None = None
    """Draw with the first camera of the capture: transforms.json, or a folder of COLMAP text
    files."""
    renderer: Literal["auto", "ewa", "steady", "light", "gsplat"] = "auto"
    """auto: gsplat if CUDA is available, otherwise ewa. ewa: on the CPU. gsplat: on CUDA. light:
    the paper's point splat. steady: on the CPU, slower, without colour popping when objects
    turn."""
    sh_degree: Literal[0, 1, 2, 3] | None = None
    """Highest spherical-harmonics degree of view-dependent colour in glb, usd, ply and html; 0
    makes files a quarter as large. Default: all degrees; 1 in html that is not compressed."""
    compress: Literal["auto", "all", "none"] = "auto"
    """Write smaller files that look the same, and report the loss. auto: compress html with 300,000
    Gaussians or more, to a third. all: compress html, and glb to a tenth; viewers then need
    EXT_meshopt_compression (Babylon.js and three.js have it). none: compress nothing."""
    color: Color | None = None
    """Background colour: red green blue, each from 0 to 1. Default: the colour of a built-in scene,
    else white."""
    yes: bool = False
    """Write a ply sequence even if it takes more than 20 GB, or more than the free space."""

    def __post_init__(self) -> None:
        if not all(1 <= n <= LARGEST_SIDE for n in self.size):
            raise InputError(f"size: expected 1 to {LARGEST_SIDE} pixels per side, got {self.size}")
        if self.color is not None and not all(0 <= c <= 1 for c in self.color):
            raise InputError(f"color: expected three numbers from 0 to 1, got {self.color}")
        if not (abs(self.azimuth or 0) <= 3600 and abs(self.elevation or 0) < 90):
            raise InputError(
                "azimuth and elevation: expected degrees, elevation between -90 and 90, got "
                f"{self.azimuth} and {self.elevation}"
            )
        self.refuse_two_cameras()

    def refuse_two_cameras(self) -> None:
        """Refuse flags that would move a camera fixed by --cameras or --framing paper."""
        fixed = "--cameras" if self.cameras else "--framing paper"
        names = ["framing"] if self.cameras else []
        if self.cameras or self.framing == "paper":
            for name in (*names, "azimuth", "elevation", "camera_path"):
                if getattr(self, name) != getattr(Picture, name):
                    flag = name.replace("_", "-")
                    raise InputError(f"--{flag} contradicts {fixed}; leave one of them out")

    def check_output(self, out: Path) -> None:
        """Fail early if the output could not be drawn or written."""
        check_folder(out)
        from ..exports import require_formats
        from ..render.scenes import require_backend

        require_formats(self.formats)
        require_backend(self.renderer)

    def check_size(self, out: Path, frames: int, scenes: "Callable[[], Scenes]") -> None:
        """Fail early if the output would not fit in memory or on the disk."""
        from ..exports import FORMATS, parse_formats
        from ..exports.estimates import estimated

        formats = parse_formats(self.formats)
        drawn = any(FORMATS[each].pictures for each in formats)
        size = self.picture_size() if drawn else (0, 0)
        shown = scenes() if "ply" in formats else ()
        estimate = estimated(frames, size, shown, self.sh_degree, self.renderer)
        estimate.check(out, sure=self.yes)
        for line in estimate.announcements():
            print(line)

    def picture_size(self) -> tuple[int, int]:
        """Width and height of the pictures in pixels."""
        from ..formats.camera_files import load_cameras

        if self.cameras is None:
            return self.size
        first = load_cameras(self.cameras)[0]
        return first.width, first.height

    @property
    def fixed(self) -> str | None:
        """The flag that fixes the camera, if any."""
        paper = self.framing == "paper"
        return "--cameras" if self.cameras else "--framing paper" if paper else None

    def views(self, animation: "Animation") -> list[FilmCamera]:
        """The requested camera, or one that sees the whole motion; the paper's orbit has four."""
        from ..formats.camera_files import load_cameras
        from ..views.framing import paper_orbit

        if self.cameras is not None:
            return [*load_cameras(self.cameras)[:1]]
        if self.framing == "paper":
            return [*paper_orbit(animation, self.size)]
        path = self.camera_path
        return [fitting_view(animation, self.size, path, self.azimuth, self.elevation)]

    def seen_views(self, animation: "Animation", json: Path | None) -> list[FilmCamera]:
        """The views, with a warning if the object is hardly visible in them."""
        views = self.views(animation)
        found = hidden(animation, views)
        if found:
            line = hidden_line(animation, self.size, found, len(views), fixed=self.fixed, json=json)
            warnings.warn(line, stacklevel=2)
        return views

    def write(
        self, animation: "Animation", out: Path, name: str, color: Color, source: str | None = None
    ) -> None:
        """Export, and print the files written."""
        from ..exports import FORMATS, export, parse_formats

        formats = parse_formats(self.formats)
        pictures = [each for each in formats if FORMATS[each].pictures]
        written: list[Path] = []
        views = self.seen_views(animation, out / f"{name}.json" if "json" in formats else None)
        with progress_bar("steps") as advance:
            for i, camera in enumerate(views):
                if i and not pictures:
                    break
                paths = export(
                    animation, out, pictures if i else formats, camera=camera,
                    name=f"{name}_view{i}" if i else name, background=self.color or color,
                    backend=self.renderer, source=source, sh_degree=self.sh_degree,
                    compress=COMPRESS[self.compress], progress=advance,
                )  # fmt: skip
                written += paths.values()
        for path in written:
            print(f"{path}  {size_of(path) / 1e3:,.0f} kB{self.loss(animation, path, views[0])}")

    def loss(self, animation: "Animation", path: Path, view: FilmCamera) -> str:
        """The loss of a compressed file as text; empty if the file is not compressed."""
        from ..exports import lost

        if path.suffix not in (".glb", ".html"):
            return ""
        first = view[0] if isinstance(view, list) else view
        decibels = lost(animation, path, first, COMPRESS[self.compress])
        return "" if decibels is None else f", compressed: loss {decibels:.1f} dB"


@app.command(name="animate")
@dataclass(frozen=True)
class Animate(Picture):
    """Push an object of a splat scene and write the motion as a video, a web page and 3D files.

    The object lands on what is there, falls off edges, and knocks over other objects (--loose). The
    floor and the object are detected automatically; `newtongs inspect SCENE` lists what was found.

    Directions: x to the right, y up, z towards the camera at azimuth 0. Physics units are metres;
    the scene's main object is taken to be half a metre large, unless --meters-per-unit is given.

    newtongs animate scene.ply --out moving --velocity 1.5 3 0 --spin 0 0 -4

    newtongs animate kitchen_table --out moving --loose --velocity 4 0 0 --friction 0.2
    """

    resumes: ClassVar[bool] = False
    scene: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SCENE")] = ""
    """Splat file (.ply, .sog, .spz, .splat, .ksplat, .glb, .compressed.ply, lod-meta.json), or the
    name of a built-in scene (bowling, kitchen_table, sunny_park, ...)."""
    out: Path = Path("animation")
    """Folder to write to."""
    select: tuple[str, ...] = ("auto",)
    """Which object or objects to move: auto (the most object-like cluster above the floor), all,
    cluster:ID (cluster:ID^ is the next larger whole, cluster:ID/0 a part), id:K,
    box:x0,y0,z0,x1,y1,z1, sphere:x,y,z,r, circle:u,v,r, masks:FOLDER. In scene
    coordinates. With --namer also words, such as "the orange can"."""
    namer: str | None = None
    """Your own model that knows things in words: a program with its arguments, an address such as
    http://127.0.0.1:8000/, or an .onnx file. It is shown a close-up of each thing (docs/words.md).
    """
    velocity: tuple[float, ...] | None = None
    """Initial velocity x y z in physics units per second. Default: a toss, or a drop if the object
    is in the air; zero with --paper."""
    spin: tuple[float, ...] | None = None
    """Initial angular velocity about x y z in rad/s. Default: as for --velocity."""
    mass: float = 1.0
    """Mass. Heavier objects push harder and are slowed less by air drag."""
    restitution: float | None = None
    """Bounciness: fraction of the speed kept in a bounce, 0 to 1. Default: 0.3; with --paper
    0.75."""
    friction: float = 0.5
    """Coulomb friction coefficient: 0.1 is ice, 0.5 wood, 1 rubber."""
    attenuation: float = 0.2
    """With --contact paper: fraction of the tangential speed lost in a bounce, 0 to 1."""
    motion: str | None = None
    """Move the object along a motion of State-32 (free_fall, rolling_with_friction, ...). It pushes
    other objects and nothing pushes it. `newtongs figure motions` draws all 32."""
    copies: int = 1
    """How many of each selected object there are, up to 50. The others start above it, in layers,
    and fall."""
    push: tuple[str, ...] = ()
    """Several objects, each with its own push, instead of the flags above: "select=cluster:0
    velocity=1,3,0 spin=0,0,-4 restitution=0.8" "select=cluster:1 velocity=0,0,0"."""
    loose: bool = False
    """Make every other detected object movable. Each stays still until something hits it."""
    plane: tuple[tuple[float, float, float, float], ...] = ()
    """Solid planes NX NY NZ D in physics units; points x with N.x < D are inside. A wall at x = 2
    facing left is -1 0 0 -2; a ramp rising to the right is -0.3 1 0 0."""
    box: tuple[tuple[float, float, float, float, float, float], ...] = ()
    """Solid boxes X0 Y0 Z0 X1 Y1 Z1 in physics units."""
    goal: str | None = None
    """Find a push that lands the object where you ask: "land at X Z", or "displace DX DY DZ" from
    its start, in physics units. The origin is the scene's; the command prints where the object
    starts."""
    best: bool = False
    """With --goal: write the best motion found even if it misses the goal by more than 0.25 physics
    units, half the size of an object. Without this flag, such a goal is an error."""
    seconds: float | None = None
    """Length of the animation in seconds. Default: until everything rests, at least 2 and at most
    6; 2 with --motion, --goal, --paper and --dynamics context."""
    fps: float = 24.0
    """Frames per second."""
    slow: float = 1.0
    """Slow motion: how many times slower all written files play, 1 to 20. So many more frames are
    simulated; --seconds are those of the simulation."""
    up: tuple[float, ...] | None = None
    """Up direction of the scene: x y z. Default: estimated."""
    floor: float | None = None
    """Height of the floor along up, in scene units; drawn where an object lands and nothing is
    captured. Default: estimated."""
    axes: str | None = None
    """Where +x, +y and +z of the file point, if not as its format defines: RDF (right, down, front)
    for an .spz with the axes of a .ply; RUB, LUF, RBU, ..."""
    level: int | None = None
    """Level of detail of a lod-meta.json; 0 is the finest. Default: the finest level with at most 4
    million Gaussians."""
    background: str | None = None
    """Place the object in another scene: a splat file, or the name of a built-in scene."""
    background_axes: str | None = None
    """Where +x, +y and +z of the background file point; see --axes."""
    ground: tuple[float, ...] | None = None
    """Up direction and floor height of a background file: UX UY UZ HEIGHT. Default: estimated."""
    height: float | None = None
    """Height of the object in units of the background. Default: such that its largest extent is a
    tenth of the background's width, or 0.9 in a built-in scene."""
    at: tuple[float, float] | None = None
    """Where in the background the object starts: X Z in physics units, as drawn by `newtongs
    inspect`. Default: the middle."""
    turn: float = 0.0
    """Rotation of the object about up in the background, in degrees."""
    lift: float = 1.0
    """Gap between the object and its support in the background, as a multiple of the object's
    height; 0 stands on the support."""
    meters_per_unit: float | None = None
    """Metres per unit of the scene (or of the background); physics units are metres. Default: such
    that the scene's main object is half a metre large."""
    dynamics: Literal["learned", "structured", "analytic", "context"] | None = None
    """analytic (the default): Newtonian terms only. learned: with the trained networks. structured:
    trained scalars, networks zeroed. context: follow the motion of State-32 that ContextNND
    predicts from the start; the object pushes others and nothing pushes it."""
    checkpoint: Path | None = None
    """Use your own model: a .safetensors file written by `newtongs train`."""
    scale: Literal["rigid", "free"] | None = None
    """rigid (the default): sizes are constant. free: the paper's equation, which pulls every size
    towards one; needs --contact paper."""
    contact: Literal["world", "paper"] | None = None
    """world (the default): true shapes with friction; objects collide with each other and the
    scene. paper: the paper's floor event, for a ball of radius |s_y|."""
    gravity: float = 9.81
    """Gravity in physics units per second squared, 0 to 100: 1.62 is the Moon's. Not with --paper,
    and not with learned or context dynamics, which were trained at 9.81."""
    paper: bool = False
    """The paper's exact procedure: learned dynamics, free scale, --contact paper, one physics unit
    per scene unit, zero velocity and spin unless given, restitution 0.75, the affine map of its
    code, four orbit views. Flags that contradict it are refused."""
    keep_ghosts: bool = False
    """Use the selection unchanged. By default, the Gaussians it missed move too (the object's
    inside, its seam), floaters around it are removed, it is separated from its support, and the
    holes it leaves there and in walls are repaired, from frame 1 on."""
    backs: bool = True
    """Close the sides of an object that no camera saw because they faced a wall or its support, in
    its own mirrored colours, from frame 1 on."""
    hollow: bool = False
    """Ignore the solid parts of the scene: objects collide only with its floor, which is
    unbounded."""
    hide_floor: bool = False
    """Do not draw floors, planes and boxes that are not visible in the capture."""
    shadow: bool = True
    """Draw contact shadows under the moving objects."""

    @property
    def fixed(self) -> str | None:
        """The flag that fixes the camera, if any."""
        return "--paper" if self.paper and not self.cameras else super().fixed

    def views(self, animation: "Animation") -> list[FilmCamera]:
        """The requested views; with ``--paper`` the paper's own by default."""
        if self.paper and self.framing is None:
            return replace(self, framing="paper").views(animation)
        return super().views(animation)

    def run(self) -> None:
        """Animate, report what was found, and export."""
        self.check()
        self.check_output(self.out)
        from ..pipeline.run import frame_times, most_seconds

        seconds = most_seconds(self.seconds, self.objects(), self.physics, self.goal)
        self.check_size(self.out, len(frame_times(seconds, self.fps, self.slow)), self.shown)
        animation = self.animation()
        vars(self).pop("source", None)  # a large one is not there twice while files are written
        self.check_goal(animation)
        report(animation)
        from ..formats.files import scene_name
        from ..samples import SCENES, backdrop

        source = None if self.scene in SCENES else self.scene  # the json may refer to this file
        color = backdrop(self.background or self.scene)
        self.write(animation, self.out, scene_name(self.scene), color, source)

    @cached_property
    def source(self) -> "Source":
        """The scene, read once."""
        from ..pipeline.source import open_source

        return open_source(self.scene, self.axes, self.level)

    def shown(self) -> "Scenes":
        """The scenes that a frame is made of, at most: a copy is no larger than its scene."""
        from ..pipeline.source import open_source

        found = [self.source.scene] * self.copies
        if self.background is not None:
            found.append(open_source(self.background, self.background_axes).scene)
        return found

    def animation(self) -> "Animation":
        """Run the pipeline as the flags ask."""
        from ..dynamics.surfaces import Box, Plane
        from ..formats.camera_files import load_cameras
        from ..pipeline.run import animate

        cameras = None if self.cameras is None else load_cameras(self.cameras)
        with progress_bar("steps") as advance:
            return animate(
                self.source,
                objects=self.objects(),
                copies=self.copies,
                place=self.place(),
                physics=self.physics,
                seconds=self.seconds,
                fps=self.fps,
                slow=self.slow,
                goal=self.goal,
                loose=self.loose,
                complete=not self.keep_ghosts,
                backs=self.backs,
                solids=[
                    *(Plane((x, y, z), d) for x, y, z, d in self.plane),
                    *(Box(b[:3], b[3:]) for b in self.box),
                ],
                up=self.up,
                floor_height=self.floor,
                meters_per_unit=self.meters_per_unit,
                cameras=cameras,
                show_floor=not self.hide_floor,
                shadow=self.shadow,
                namer=self.namer,
                progress=advance,
            )

    @cached_property
    def physics(self) -> "Physics":
        """The physics from the flags; a model that cannot be read fails here."""
        from ..pipeline.spec import PAPER, Physics

        if self.paper:
            return PAPER
        model = self.checkpoint or self.dynamics or "analytic"
        scale, contact = self.scale or "rigid", self.contact or "world"
        physics = Physics(model, scale, contact, solid=not self.hollow, gravity=self.gravity)
        _ = physics.model
        return physics

    def check(self) -> None:
        """Refuse flags that would be ignored or contradict each other."""
        if not self.scene:
            raise InputError("no scene given; name one: newtongs animate SCENE.ply --out DIR")
        one_object = ("select", "mass", "restitution", "friction", "attenuation")
        self.refuse_beside("push", one_object)
        if self.paper:
            self.check_paper()
        given = [name for name in ("velocity", "spin") if getattr(self, name) is not None]
        if given and (self.push or self.goal):
            other = "--push" if self.push else "--goal"
            raise InputError(f"--{given[0]} and {other} both set the push; give one of them")
        if self.background is None:
            for name in ("background_axes", "at", "turn", "lift", "height"):
                if getattr(self, name) != getattr(Animate, name):
                    raise InputError(f"--{name.replace('_', '-')} needs a --background; name one")
        if self.motion is not None and (self.push or self.goal):
            other = "--push (with motion=NAME in it)" if self.push else "--goal"
            raise InputError(f"--motion and {other} both set how an object moves; give one of them")
        self.check_engine()
        if self.checkpoint is not None and self.dynamics is not None:
            raise InputError("--checkpoint and --dynamics both name a model; give one of them")
        if self.best and self.goal is None:
            raise InputError("--best writes the motion nearest to a --goal; name a goal")
        for place in (self.scene, self.background):
            check_scene(place)
        from ..pipeline.run import check_goal
        from ..pipeline.spec import SceneSpec

        if self.namer is not None:
            from ..pipeline.namers import open_namer

            open_namer(self.namer)  # refuse it before anything is loaded
        spec = SceneSpec(
            tuple(self.objects()), self.physics, place=self.place(), loose=self.loose,
            copies=self.copies,
        )  # fmt: skip
        if self.goal is not None:
            check_goal(self.goal, spec)

    def check_engine(self) -> None:
        """Refuse flags that the chosen engine ignores."""
        if self.contact == "paper":
            self.refuse_beside("contact", ("friction", "hollow"))
        elif not self.paper and self.attenuation != Animate.attenuation:
            raise InputError(
                "--attenuation applies only with --contact paper; use --friction, or add "
                "--contact paper"
            )

    def check_goal(self, animation: "Animation") -> None:
        """Refuse a goal that no push reaches, unless --best accepts the nearest motion."""
        missed = animation.about.goal_missed_by
        if self.best or max(missed, default=0.0) <= REACHED:
            return
        index = max(range(len(missed)), key=lambda i: missed[i])
        nearest = animation.about.objects[index]
        raise InputError(
            f'goal "{self.goal}" is out of reach: object {index} misses it by '
            f"{missed[index]:.3g} physics units with the best push found, --velocity "
            f"{short(nearest.velocity)} --spin {short(nearest.spin)}; choose a nearer goal or more "
            "--seconds, or accept this motion with --best"
        )

    def check_paper(self) -> None:
        """Refuse flags that contradict the paper's procedure or do nothing in it."""
        for name, its in PAPER_WORDS.items():
            given = getattr(self, name)
            if given not in (None, its):
                raise InputError(
                    f"--{name} {given} contradicts --paper, which is {its}; leave one of them out"
                )
        self.refuse_beside("paper", REFUSED_BY_PAPER)

    def refuse_beside(self, flag: str, names: Sequence[str]) -> None:
        """Refuse flags that ``flag`` makes meaningless, if they differ from their defaults."""
        if not getattr(self, flag):
            return
        default = {f.name: f.default for f in fields(self)}
        for name in names:
            if getattr(self, name) != default[name]:
                advice = f"put {name}=... into it" if flag == "push" else "leave one of them out"
                why = "contradicts" if flag == "paper" else "is ignored with"
                other = "contact paper" if flag == "contact" else flag
                raise InputError(f"--{name.replace('_', '-')} {why} --{other}; {advice}")

    def place(self) -> "Place | None":
        """Where to place the objects in another scene; None without a background."""
        from ..pipeline.spec import Place

        if self.ground is not None and (self.background is None or len(self.ground) != 4):
            raise InputError("--ground: expected a --background and four numbers UX UY UZ HEIGHT")
        if self.background is None:
            return None
        *up, height = self.ground or (None,)
        return Place(
            self.background, at=self.at, turn=self.turn, height=self.height, lift=self.lift,
            up=up or None, floor_height=height, axes=self.background_axes,
        )  # fmt: skip

    def objects(self) -> "list[ObjectSpec]":
        """The objects to move, from --push or from the flags of a single object."""
        from ..pipeline.spec import ObjectSpec

        if self.push:
            return [parse_push(text) for text in self.push]
        common = ObjectSpec(
            velocity=self.velocity,
            spin=self.spin,
            mass=self.mass,
            restitution=self.restitution,
            friction=self.friction,
            attenuation=self.attenuation,
            motion=self.motion,
        )
        return [replace(common, select=selector) for selector in self.select]


@app.command(name="replay")
@dataclass(frozen=True)
class Replay(Picture):
    """Render or export an animation again, from the .json that `newtongs animate` wrote."""

    resumes: ClassVar[bool] = False
    file: Annotated[Path, tyro.conf.Positional] = Path()
    """The .json file of an animation."""
    out: Path = Path("replay")
    """Folder to write to."""
    formats: tuple[str, ...] = ("mp4", "png")
    """Formats to write; see newtongs animate."""

    def run(self) -> None:
        """Load and export."""
        if not self.file.name:
            raise InputError("no file given; name a .json written by newtongs animate")
        if self.file.suffix.lower() != ".json" or self.file.name.lower().endswith("meta.json"):
            raise InputError(
                f"replay reads the .json of an animation, got {self.file}; if it is a scene, "
                f"animate it first: newtongs animate {shlex.quote(str(self.file))}"
            )
        if not self.file.is_file():
            raise InputError(f"no file {self.file}; name a .json written by newtongs animate")
        self.check_output(self.out)
        from ..exports.replay import load_animation

        animation = load_animation(self.file)
        self.check_size(self.out, len(animation), lambda: [animation.scene])
        self.write(animation, self.out, self.file.stem, WHITE)


def size_of(path: Path) -> int:
    """Size in bytes of a file, or of all files in a folder."""
    return sum(p.stat().st_size for p in path.rglob("*")) if path.is_dir() else path.stat().st_size
