"""A graphite-web that answers render requests on its standard input, one JSON object on each line.

Usage: python oracle.py DIRECTORY SERIES. SERIES is a JSON file of {now, series: [{name, step, points, values}]},
where `points` is the capacity of the file. The series become whisper files below DIRECTORY, read by
graphite-web's own finder. A request is {params: [[name, value]...], enforce: bool}, an answer {status, body}.
"""
import datetime
import json
import os
import resource
import signal
import sys
import types
from urllib.parse import urlencode

directory, series_file = sys.argv[1:3]
# Limit of CPU time for an answer, in seconds.
PATIENCE = 1
MEMORY = 2 << 30

settings_module = types.ModuleType("oracle_settings")
settings_module.__dict__.update(
    SECRET_KEY="differential",
    STORAGE_DIR=directory,
    # With a trailing slash, as in the default.
    WHISPER_DIR=os.path.join(directory, "whisper/"),
    STANDARD_DIRS=[os.path.join(directory, "whisper/")],
    LOG_DIR=os.path.join(directory, "log"),
    LOG_ROTATION=False,
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.path.join(directory, "db")}},
    CACHES={"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}},
    CARBONLINK_HOSTS=[],
    CLUSTER_SERVERS=[],
    USE_WORKER_POOL=False,
    ALLOWED_HOSTS=["*"],
    TIME_ZONE="UTC",
    TAGDB_CACHE_DURATION=0,
    FIND_CACHE_DURATION=0,
    DEFAULT_CACHE_DURATION=0,
    STORAGE_FINDERS=("graphite.finders.standard.StandardFinder",),
)
sys.modules["oracle_settings"] = settings_module
os.environ["GRAPHITE_SETTINGS_MODULE"] = "oracle_settings"
os.environ["DJANGO_SETTINGS_MODULE"] = "graphite.settings"
os.makedirs(os.path.join(directory, "log"), exist_ok=True)
os.makedirs(os.path.join(directory, "whisper"), exist_ok=True)
resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

# Only drawing needs these libraries.
for name in ("cairocffi", "cairo"):
    sys.modules.setdefault(name, types.ModuleType(name))

import django

django.setup()
import whisper
from django.conf import settings
from django.core.management import call_command
from django.test import Client
from graphite.events.models import Event
from graphite.render import attime
from graphite.storage import STORE
from graphite.tags.utils import TaggedSeries


class Overdue(BaseException):
    """Raised when an answer exceeds the limit of CPU time."""


def overdue(*_):
    raise Overdue()


class Clock(attime.datetime):
    """A clock fixed at the `now` of all requests, because functions do not receive the parameter `now`."""

    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(everything["now"], tz)


def write(series):
    name = series["name"]
    path = TaggedSeries.encode(name, sep=os.sep) if ";" in name else name.replace(".", os.sep)
    path = os.path.join(settings.WHISPER_DIR, path + ".wsp")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    whisper.create(path, [(series["step"], series["points"])])
    if series["values"]:
        # Newest first, as whisper's writer requires.
        with open(path, "r+b") as file:
            whisper.file_update_many(file, [tuple(point) for point in series["values"]], now=everything["now"])
    if ";" in name:
        STORE.tagdb.tag_series(name)


def answer(request):
    settings.ENFORCE_INPUT_VALIDATION = request["enforce"]
    body = urlencode([tuple(pair) for pair in request["params"]])
    signal.signal(signal.SIGPROF, overdue)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        response = client.post("/render", body, content_type="application/x-www-form-urlencoded")
        return {"status": response.status_code, "body": response.content.decode("utf-8", "replace")}
    except Overdue:
        return {"status": 0, "body": "no answer"}
    except MemoryError:
        return {"status": 0, "body": "too large"}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


with open(series_file) as file:
    everything = json.load(file)
attime.datetime = Clock
out, sys.stdout = sys.stdout, sys.stderr
call_command("migrate", run_syncdb=True, verbosity=0)
for one in everything["series"]:
    write(one)
for event in everything["events"]:
    when = datetime.datetime.fromtimestamp(event["when"], datetime.timezone.utc)
    Event(what=event["what"], tags=" ".join(event["tags"]), when=when, data="").save()
client = Client(raise_request_exception=False)
print("ready", file=out, flush=True)
for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), file=out, flush=True)
