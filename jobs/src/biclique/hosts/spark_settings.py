"""What every Spark of ours is told, whoever starts it: one Java on this machine, with one slot for each task that is to
run at once, which listens to this machine alone; or the driver of executors elsewhere. Nobody looks at pages of its
own, and it holds no rows.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from biclique.hosts.java_classes import java_of_this_machine, mapped_in
from biclique.query.errors import QueryError

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
JAVA_REMEDY = "install Java 17 (Debian: openjdk-17-jre-headless), or set JAVA_HOME to it"
HERE = "127.0.0.1"


def refuse_without_java() -> None:
    if java_of_this_machine() is None:
        raise QueryError("this machine", "Spark needs Java, and there is none", JAVA_REMEDY)


def on_this_machine(name: str, slots: int, java: str, archived: bool = True) -> dict[str, str]:
    """`java`: options of its Java. `archived`: it maps in the classes that are kept. Tasks run in processes of this
    machine, and nobody else need reach us."""
    os.environ.setdefault("SPARK_LOCAL_IP", HERE)
    address = {"spark.driver.host": HERE, "spark.driver.bindAddress": HERE}
    return {"spark.master": f"local[{slots}]", **address, **_driving(name, java, archived)}


def on_a_cluster(name: str, master: str, java: str) -> dict[str, str]:
    """Tasks run on executors, whose Java has the same options. What only the cluster can say (addresses, pods, memory)
    is for the settings that Spark reads by itself, as from SPARK_CONF_DIR."""
    return {"spark.master": master, "spark.executor.extraJavaOptions": java, **_driving(name, java, True)}


def _driving(name: str, java: str, archived: bool) -> dict[str, str]:
    """Tasks run in this process's Python, which the environment tells as well."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    return {
        "spark.app.name": name,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": f"{java} {mapped_in()}".strip() if archived else java,
    }


def say_nothing_of_accumulators(context: Any) -> None:
    """Java keeps a connection for them, of which we have none. Where Java ends first, whoever serves it would write a
    traceback to our stderr."""
    context._accumulatorServer.handle_error = lambda request, address: None
