"""``newtongs animate`` and ``newtongs replay``: from a splat file to a moving splat."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import tyro

from ..errors import InputError
from .apps import app
from .console import check_folder, check_scene, progress_bar
from .viewing import CameraPath, View, fitting_view, hidden, hidden_line
from .words import parse_push, short, tell

if TYPE_CHECKING:
    from ..pushes import Physics, Push
    from ..scene.animation import Animation
    from ..scene.gaussians import GaussianScene
    from ..scene.world_frame import WorldFrame

    Scenes = Sequence[GaussianScene]

Color = tuple[float, float, float]
WHITE: Color = (1.0, 1.0, 1.0)
LARGEST = 8192  # pixels a side
COMPRESS = {"auto": None, "all": True, "none": False}
REACHED = 0.25  # physics units by which a goal may be missed: half an object's size
PAPER_WORDS = {"dynamics": "learned", "scale": "free", "contact": "paper", "framing": "paper"}
REFUSED_BY_PAPER = (
    "checkpoint", "hollow", "friction", "loose", "motion", "plane", "box", "background", "height",
    "ground", "at", "turn", "lift", "meters_per_unit", "azimuth", "elevation", "camera_path",
)  # fmt: skip


@dataclass(frozen=True)
class Picture:
    """Camera, renderer and formats; what animate and replay share."""

    side_by_side: ClassVar[bool] = True  # into one folder; files of one name wait for each other
    formats: tuple[str, ...] = ("mp4", "png", "json", "glb", "html")
    """What to write, with spaces or commas between: mp4, gif, png (a sheet of frames), json (with
    npz: enough to replay), glb (KHR_gaussian_splatting), usd, ply (a file a frame: large), html
    (one page that plays)."""
    size: tuple[int, int] = (512, 512)
    """Width and height of the picture in pixels."""
    azimuth: float | None = None
    """Where the camera stands around the object, in degrees. At 0 it looks along -z: x is to the
    right. Default: 25, or a side from which nothing hides the object."""
    elevation: float | None = None
    """How far it looks down, in degrees. Default: 14, or more where that helps."""
    camera_path: CameraPath = "still"
    """still: the camera stands. orbit: it turns by 90 degrees around the motion. follow: it moves
    along with the object. For films and sheets; html has the first view."""
    framing: Literal["fit", "paper"] | None = None
    """fit: the nearest camera that sees the whole motion (the default). paper: the paper's orbit of
    four views, radius 5 and elevation 1.2 around the mean position (the default of --paper); films
    and sheets of views 1 to 3 are NAME_view1 to NAME_view3."""
    cameras: Path | None = None
    """Cameras of the capture instead (transforms.json, or a folder of COLMAP text files): the
    first draws the pictures."""
    renderer: Literal["auto", "ewa", "steady", "light", "gsplat"] = "auto"
    """What draws: ewa on the CPU, gsplat on CUDA, light is the paper's point splat. steady, on the
    CPU too, takes longer, and no colours jump when things turn."""
    sh_degree: Literal[0, 1, 2, 3] | None = None
    """Cut view-dependent colour above this degree in glb, usd, ply and html: 0 makes files a
    quarter as large. Default: all of it, and 1 in html that is not compressed."""
    compress: Literal["auto", "all", "none"] = "auto"
    """Smaller files that look the same; the loss is told. auto: html from 300,000 Gaussians on, to
    a third. all: html, and glb to a tenth, which viewers open that know EXT_meshopt_compression
    (Babylon.js and three.js do). none: neither."""
    color: Color | None = None
    """Colour where no Gaussian is: red green blue from 0 to 1. Default: white, or the scene's."""
    yes: bool = False
    """Write a ply sequence also where it takes more than 20 GB, or than there is room for."""

    def __post_init__(self) -> None:
        if not all(1 <= n <= LARGEST for n in self.size):
            raise InputError(f"size: expected 1 to {LARGEST} pixels a side, got {self.size}")
        if self.color is not None and not all(0 <= c <= 1 for c in self.color):
            raise InputError(f"color: expected three numbers from 0 to 1, got {self.color}")
        if not (abs(self.azimuth or 0) <= 3600 and abs(self.elevation or 0) < 90):
            raise InputError("azimuth and elevation are degrees; elevation lies within 90")
        self.refuse_two_cameras()

    def refuse_two_cameras(self) -> None:
        """The camera of a capture, or of the paper, stands where it stands."""
        fixed = "--cameras" if self.cameras else "--framing paper"
        names = ["framing"] if self.cameras else []
        if self.cameras or self.framing == "paper":
            for name in (*names, "azimuth", "elevation", "camera_path"):
                if getattr(self, name) != getattr(Picture, name):
                    flag = name.replace("_", "-")
                    raise InputError(f"--{flag} contradicts {fixed}; leave one of them out")

    def check_output(self, out: Path) -> None:
        """Refuse before the work what could not be drawn or written after it."""
        check_folder(out)
        from ..exports import require_formats
        from ..render.scenes import require_backend

        require_formats(self.formats)
        require_backend(self.renderer)

    def check_size(self, out: Path, frames: int, scenes: "Callable[[], Scenes]") -> None:
        """Refuse what would not fit in memory or on the disk; ``scenes`` are asked for a ply."""
        from ..exports import FORMATS, parse_formats
        from ..exports.estimates import estimated

        formats = parse_formats(self.formats)
        drawn = any(FORMATS[each].pictures for each in formats)
        size = self.picture_size() if drawn else (0, 0)
        shown = scenes() if "ply" in formats else ()
        estimate = estimated(frames, size, shown, self.sh_degree, self.renderer)
        estimate.check(out, sure=self.yes)
        for line in estimate.told():
            print(line)

    def picture_size(self) -> tuple[int, int]:
        """Width and height in pixels of what will be drawn."""
        from ..scene.io.camera_files import load_cameras

        if self.cameras is None:
            return self.size
        first = load_cameras(self.cameras)[0]
        return first.width, first.height

    @property
    def fixed(self) -> str | None:
        """The flag that says where the camera stands."""
        paper = self.framing == "paper"
        return "--cameras" if self.cameras else "--framing paper" if paper else None

    def views(self, animation: "Animation") -> list[View]:
        """The camera asked for, or one that sees the whole motion; the paper's orbit has four."""
        from ..scene.framing import paper_orbit
        from ..scene.io.camera_files import load_cameras

        if self.cameras is not None:
            return [*load_cameras(self.cameras)[:1]]
        if self.framing == "paper":
            return [*paper_orbit(animation, self.size)]
        way = self.camera_path
        return [fitting_view(animation, self.size, way, self.azimuth, self.elevation)]

    def seen_views(self, animation: "Animation", json: Path | None) -> list[View]:
        """The views, with a warning where the object is hardly to be seen in them."""
        views = self.views(animation)
        found = hidden(animation, views)
        if found:
            line = hidden_line(animation, self.size, found, len(views), fixed=self.fixed, json=json)
            warnings.warn(line, stacklevel=2)
        return views

    def write(
        self, animation: "Animation", out: Path, name: str, color: Color, source: str | None = None
    ) -> None:
        """Export, and say what was written."""
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

    def loss(self, animation: "Animation", path: Path, view: View) -> str:
        """What compression cost a file, in words; nothing where it was not compressed."""
        from ..exports import lost

        if path.suffix not in (".glb", ".html"):
            return ""
        first = view[0] if isinstance(view, list) else view
        decibels = lost(animation, path, first, COMPRESS[self.compress])
        return "" if decibels is None else f", compressed: loss {decibels:.1f} dB"


@app.command(name="animate")
@dataclass(frozen=True)
class Animate(Picture):
    """Give an object of a splat scene a push, and write what happens as video, page and files.

    It lands on what is there, falls off edges, and knocks over other objects (--loose). The floor
    and the object are found by themselves; `newtongs inspect SCENE` lists what there is.

    Directions: x to the right, y up, z towards the camera at azimuth 0. Physics units are metres:
    the scene's main object is taken for half a metre, unless --meters-per-unit says otherwise.

    newtongs animate scene.ply --out moving --velocity 1.5 3 0 --spin 0 0 -4

    newtongs animate kitchen_table --out moving --loose --velocity 4 0 0 --friction 0.2
    """

    resumes: ClassVar[bool] = False
    scene: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SCENE")] = ""
    """Splat file (.ply, .sog, .spz, .splat, .ksplat, .glb, .compressed.ply, lod-meta.json), or one
    of our own scenes by name (bowling, kitchen_table, sunny_park, ...)."""
    out: Path = Path("animation")
    """Folder to write to."""
    select: tuple[str, ...] = ("auto",)
    """The object, or several: auto (the most object-like thing above the floor), all, cluster:ID,
    id:K, box:x0,y0,z0,x1,y1,z1, sphere:x,y,z,r, circle:u,v,r, masks:FOLDER. Scene coordinates."""
    velocity: tuple[float, ...] | None = None
    """Initial velocity x y z, units a second. Default: a toss, or a drop where it is in the air;
    none with --paper."""
    spin: tuple[float, ...] | None = None
    """Initial angular velocity about x y z, rad/s."""
    mass: float = 1.0
    """Mass; heavier things push harder and are slowed down less by the air."""
    restitution: float | None = None
    """Part of its speed that a bounce keeps, 0 to 1. Default: 0.6, with --paper 0.75."""
    friction: float = 0.5
    """Friction coefficient: 0.1 is ice, 0.5 wood, 1 rubber."""
    attenuation: float = 0.2
    """With --contact paper: part of the speed along the floor that a bounce takes, 0 to 1."""
    motion: str | None = None
    """Drive the object along one of State-32's motions (free_fall, rolling_with_friction, ...). It
    pushes what it meets and is pushed by nothing. `newtongs figure motions` draws all 32."""
    push: tuple[str, ...] = ()
    """Several objects with a push each, in place of the flags above: "select=cluster:0
    velocity=1,3,0 spin=0,0,-4 restitution=0.8" "select=cluster:1 velocity=0,0,0"."""
    loose: bool = False
    """Make every other object that is found movable. It stands still until something hits it."""
    plane: tuple[tuple[float, float, float, float], ...] = ()
    """Solid planes NX NY NZ D in physics units: everything with N.x < D is solid. A wall at x = 2
    that faces left is -1 0 0 -2, a ramp that rises to the right -0.3 1 0 0."""
    box: tuple[tuple[float, float, float, float, float, float], ...] = ()
    """Solid boxes X0 Y0 Z0 X1 Y1 Z1 in physics units."""
    goal: str | None = None
    """Search the push: "land at X Z" or "displace DX DY DZ" (from where the object is), in physics
    units. The origin is the scene's own; the command prints where the object starts."""
    best: bool = False
    """With --goal: write the nearest motion found, also where it misses the goal by more than 0.25
    physics units, half an object's size. Without it such a goal is refused."""
    seconds: float = 2.0
    """Length."""
    fps: float = 24.0
    """Frames a second."""
    up: tuple[float, ...] | None = None
    """Up direction of the scene x y z. Default: estimated."""
    floor: float | None = None
    """Height of the floor along up, in scene units. Default: estimated."""
    axes: str | None = None
    """Where +x, +y, +z of the file point, if not where its format says: RDF (right, down, front)
    for an .spz that holds a .ply's axes, RUB, LUF, RBU, ..."""
    level: int | None = None
    """Level of detail of a lod-meta.json; 0 is the finest. Default: the finest of up to 4 million
    Gaussians."""
    background: str | None = None
    """Set the object into another scene: a splat file, or the name of one of ours."""
    background_axes: str | None = None
    """Where +x, +y, +z of the background's file point; see --axes."""
    ground: tuple[float, ...] | None = None
    """Up direction and floor height of a background file: UX UY UZ HEIGHT. Default: estimated."""
    height: float | None = None
    """Height of the object in the background's units."""
    at: tuple[float, float] | None = None
    """Where in the background the object starts: X Z in physics units, as `newtongs inspect` draws
    them. Default: the middle."""
    turn: float = 0.0
    """Degrees by which the object is turned about up in the background."""
    lift: float = 1.0
    """Gap between the object and what is below it in the background, in its own heights: 0 stands
    on it."""
    meters_per_unit: float | None = None
    """How long a unit of the scene (or of the background) is in metres, which are the physics
    units. Default: such that the scene's main object is half a metre large."""
    dynamics: Literal["learned", "structured", "analytic", "context"] | None = None
    """analytic (the default): Newton's terms. learned: with the trained networks. structured:
    trained scalars, networks zeroed. context: follow what ContextNND takes the start for, one of
    State-32's motions; it pushes what it meets and is pushed by nothing."""
    checkpoint: Path | None = None
    """A model of your own instead: a .safetensors file that `newtongs train` wrote."""
    scale: Literal["rigid", "free"] | None = None
    """rigid (the default): sizes stay. free: the paper's, which pulls every size towards one; needs
    --contact paper."""
    contact: Literal["world", "paper"] | None = None
    """world (the default): true shapes, friction; objects meet each other and the scene. paper: the
    paper's event at the floor, for a ball of radius |s_y|."""
    paper: bool = False
    """The paper to the letter: learned, free, --contact paper, a scene unit is a physics unit, no
    velocity or spin unless given, restitution 0.75, the affine map of its code, four orbit views.
    Settings that contradict it are refused."""
    keep_ghosts: bool = False
    """Take the selection as it is. Else what it missed moves too (the object's inside, its seam),
    floaters around it go, it is cut at what it stands on, and the hole there is mended, from frame
    1 on."""
    hollow: bool = False
    """Ignore the solid parts of the scene: only its floor can be touched, and is endless."""
    hide_floor: bool = False
    """Do not draw floors, planes and boxes that the capture does not show."""
    shadow: bool = True
    """Darken what lies under the moving objects."""

    @property
    def fixed(self) -> str | None:
        """The flag that says where the camera stands."""
        return "--paper" if self.paper and not self.cameras else super().fixed

    def views(self, animation: "Animation") -> list[View]:
        """As elsewhere; the paper's own with ``--paper``."""
        if self.paper and self.framing is None:
            return replace(self, framing="paper").views(animation)
        return super().views(animation)

    def run(self) -> None:
        """Animate, say what was found, and export."""
        self.check()
        self.check_output(self.out)
        from ..animator import frame_times

        self.check_size(self.out, len(frame_times(self.seconds, self.fps)), self.shown)
        animation = self.animation()
        self.check_goal(animation)
        tell(animation)
        from ..templates import SCENES

        name = Path(self.scene).stem.removesuffix(".compressed")
        source = None if self.scene in SCENES else self.scene  # the json refers to it, if it may
        self.write(animation, self.out, name, self.backdrop(), source)

    def shown(self) -> "Scenes":
        """What a frame is made of."""
        from ..stage import opened

        found = [opened(self.scene, self.axes, self.level).scene]
        if self.background is not None:
            found.append(opened(self.background, self.background_axes).scene)
        return found

    def animation(self) -> "Animation":
        """What happens, from the flags."""
        from ..animator import animate
        from ..dynamics.surfaces import Box, Plane
        from ..scene.io.camera_files import load_cameras

        cameras = None if self.cameras is None else load_cameras(self.cameras)
        with progress_bar("steps") as advance:
            return animate(
                self.scene,
                pushes=self.pushes(),
                seconds=self.seconds,
                fps=self.fps,
                up=self.up,
                floor=self.floor,
                background=self.background,
                ground=self.stage_ground(),
                height=self.height,
                at=self.at,
                turn=self.turn,
                lift=self.lift,
                meters_per_unit=self.meters_per_unit,
                cameras=cameras,
                planes=[Plane((x, y, z), d) for x, y, z, d in self.plane],
                boxes=[Box(b[:3], b[3:]) for b in self.box],
                loose=self.loose,
                keep_ghosts=self.keep_ghosts,
                goal=self.goal,
                physics=self.physics(),
                show_floor=not self.hide_floor,
                shadow=self.shadow,
                axes=self.axes,
                level=self.level,
                background_axes=self.background_axes,
                progress=advance,
            )

    def backdrop(self) -> Color:
        """The colour behind everything: that of a scene of ours."""
        from ..templates import SCENES, named_scene

        place = self.background or self.scene
        return named_scene(place).color if place in SCENES else WHITE

    def physics(self) -> "Physics":
        """From the flags; a model that cannot be read is told now."""
        from ..pushes import PAPER, Physics

        if self.paper:
            return PAPER
        model = self.checkpoint or self.dynamics or "analytic"
        scale, contact = self.scale or "rigid", self.contact or "world"
        physics = Physics(model, scale, contact, solid=not self.hollow)
        _ = physics.model
        return physics

    def check(self) -> None:
        """Refuse what would be ignored."""
        if not self.scene:
            raise InputError("name a splat file: newtongs animate SCENE.ply --out DIR")
        one_object = ("select", "mass", "restitution", "friction", "attenuation")
        self.refuse_beside("push", one_object)
        if self.paper:
            self.check_paper()
        given = [name for name in ("velocity", "spin") if getattr(self, name) is not None]
        if given and (self.push or self.goal):
            other = "--push" if self.push else "--goal"
            raise InputError(f"--{given[0]} and {other} say the same thing; give one of them")
        if self.background is None:
            for name in ("background_axes", "at", "turn", "lift", "height"):
                if getattr(self, name) != getattr(Animate, name):
                    raise InputError(
                        f"--{name.replace('_', '-')} is about a --background; name one"
                    )
        if self.motion is not None and (self.push or self.goal):
            other = "--push (with motion=NAME in it)" if self.push else "--goal"
            raise InputError(f"--motion and {other} say how one object moves; give one of them")
        self.check_engine()
        if self.best and self.goal is None:
            raise InputError("--best takes the motion nearest to a --goal; name one")
        for place in (self.scene, self.background):
            check_scene(place)
        if self.goal is not None:
            from ..dynamics.search import Goal

            Goal.parse(self.goal)

    def check_engine(self) -> None:
        """Refuse what the engine that was chosen does not know."""
        if self.contact == "paper":
            self.refuse_beside("contact", ("friction",))
        elif not self.paper and self.attenuation != Animate.attenuation:
            raise InputError(
                "--attenuation belongs to --contact paper; use --friction, or name that contact"
            )

    def check_goal(self, animation: "Animation") -> None:
        """Refuse a goal that no push reaches, unless the nearest will do."""
        missed = animation.about.goal_missed_by
        if self.best or max(missed, default=0.0) <= REACHED:
            return
        index = max(range(len(missed)), key=lambda i: missed[i])
        nearest = animation.about.objects[index]
        raise InputError(
            f'goal "{self.goal}" is out of reach: object {index} misses it by '
            f"{missed[index]:.3g} physics units with the best push found, --velocity "
            f"{short(nearest.velocity)} --spin {short(nearest.spin)}; choose a nearer goal or more "
            "--seconds, or take this motion with --best"
        )

    def check_paper(self) -> None:
        """Refuse what contradicts the paper's procedure, or would do nothing in it."""
        for name, its in PAPER_WORDS.items():
            given = getattr(self, name)
            if given not in (None, its):
                raise InputError(
                    f"--{name} {given} contradicts --paper, which is {its}; leave one of them out"
                )
        self.refuse_beside("paper", REFUSED_BY_PAPER)

    def refuse_beside(self, flag: str, names: Sequence[str]) -> None:
        """Words that ``flag`` makes meaningless, where they differ from their defaults."""
        if not getattr(self, flag):
            return
        default = {f.name: f.default for f in fields(self)}
        for name in names:
            if getattr(self, name) != default[name]:
                where = f"put {name}=... into it" if flag == "push" else "leave one of them out"
                why = "contradicts" if flag == "paper" else "is ignored beside"
                word = "contact paper" if flag == "contact" else flag
                flag_ = name.replace("_", "-")
                raise InputError(f"--{flag_} {why} --{word}; {where}")

    def stage_ground(self) -> "WorldFrame | None":
        """The background's up and floor, if they were given."""
        from ..scene.world_frame import WorldFrame

        if self.ground is None:
            return None
        if self.background is None or len(self.ground) != 4:
            raise InputError(
                "--ground belongs to a --background and has four numbers UX UY UZ HEIGHT"
            )
        *up, height = self.ground
        return WorldFrame.of_floor(up, height)

    def pushes(self) -> "list[Push]":
        """One for each object."""
        from ..pushes import Push

        if self.push:
            return [parse_push(text) for text in self.push]
        common = Push(
            velocity=self.velocity,
            spin=self.spin,
            mass=self.mass,
            restitution=self.restitution,
            friction=self.friction,
            attenuation=self.attenuation,
            motion=self.motion,
        )
        return [replace(common, select=word) for word in self.select]


@app.command(name="replay")
@dataclass(frozen=True)
class Replay(Picture):
    """Render or export again what `newtongs animate` wrote as json."""

    resumes: ClassVar[bool] = False
    file: Annotated[Path, tyro.conf.Positional] = Path()
    """The .json file."""
    out: Path = Path("replay")
    """Folder to write to."""
    formats: tuple[str, ...] = ("mp4", "png")
    """What to write; see newtongs animate."""

    def run(self) -> None:
        """Load and export."""
        if not self.file.is_file():
            raise InputError(f"no file {self.file}; name a .json that newtongs animate wrote")
        self.check_output(self.out)
        from ..exports.replay import load_animation

        animation = load_animation(self.file)
        self.check_size(self.out, len(animation), lambda: [animation.scene])
        self.write(animation, self.out, self.file.stem, WHITE)


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files of a folder."""
    return sum(p.stat().st_size for p in path.rglob("*")) if path.is_dir() else path.stat().st_size
