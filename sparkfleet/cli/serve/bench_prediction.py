"""The prediction of `recipes.fit` for a deployment, and the measurements that calibrate it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sparkfleet import facts
from sparkfleet.cli.options import Options
from sparkfleet.cli.recipes.fitting.fit import predict_fit
from sparkfleet.cli.recipes.fitting.values import FitRequest, FitResult
from sparkfleet.cli.serve.session import ServeSession
from sparkfleet.errors import SparkfleetError
from sparkfleet.fit import measured_speeds
from sparkfleet.fit.cost_model import PUBLISHED, Sample
from sparkfleet.fit.interval import UnknownFigureError
from sparkfleet.fit.measured_speeds import MeasuredStep
from sparkfleet.fit.speed import DecodeRate, build_decode_step, predict_decode_rate
from sparkfleet.launch.endpoint.throughput import Throughput
from sparkfleet.launch.host import processes
from sparkfleet.recipes.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchPrediction:
    """The expected rate and the calibration sample of each pace; or `why` there are none."""

    rates: tuple[DecodeRate, ...] = ()
    samples: tuple[Sample, ...] = ()
    why: tuple[str, ...] = ()


def predict_bench(
    options: Options, session: ServeSession, paces: Sequence[Throughput]
) -> BenchPrediction:
    """Return what to expect of `paces`; the model is read from the head."""
    about = session.served.about
    recipe = session.recipe
    if not recipe.name:
        why = f"recipe {about.recipe!r} not found; pass its file with --recipe"
        return BenchPrediction(why=(why,))
    sized = replace(options, tp=about.tp, pp=about.pp)
    request = FitRequest(options=sized, recipe=str(recipe.path), sized=True, staged=True)
    try:
        fit = predict_fit(request)
        rates = tuple(_predict_rate(fit, pace) for pace in paces)
    except (SparkfleetError, UnknownFigureError) as error:
        return BenchPrediction(why=(f"recipes.fit: {error}",))
    return BenchPrediction(rates=rates, samples=_build_samples(fit, rates, paces))


def _build_samples(
    fit: FitResult, rates: Sequence[DecodeRate], paces: Sequence[Throughput]
) -> tuple[Sample, ...]:
    """Return the steps that were measured; with drafts their number is unknown."""
    shape = fit.model.shape
    if shape is None or fit.start.speculation or not all(pace.decode for pace in paces):
        return ()
    return tuple(
        Sample(
            step=build_decode_step(shape, fit.start, rate.read.middle),
            seconds=pace.requests / pace.decode,
        )
        for rate, pace in zip(rates, paces, strict=True)
    )


def save_measurement(
    session: ServeSession, paces: Sequence[Throughput], samples: Sequence[Sample]
) -> None:
    """Write the measurements to the head, where `recipes.fit --staged` finds them."""
    connection = session.connection
    cluster = session.context.cluster.name
    about = session.served.about
    settings = Settings(host=connection.host)
    path = measured_speeds.format_speeds_path(settings.cluster_dir, cluster)
    previous = facts.gather_facts(connection, files=[path], fabric=False).read(path).text
    measurements = (
        MeasuredStep(
            recipe=about.recipe,
            nodes=len(about.hosts),
            requests=pace.requests,
            context=round(pace.context),
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            sample=sample,
        )
        for pace, sample in zip(paces, samples, strict=True)
    )
    text = measured_speeds.format_measurements(
        measured_speeds.parse_measurements(previous), measurements
    )
    processes.write_files(
        connection, processes.locate_deployment(settings, cluster), {measured_speeds.FILE: text}
    )


def _predict_rate(fit: FitResult, measured: Throughput) -> DecodeRate:
    return predict_decode_rate(
        fit.model,
        fit.start,
        context=round(measured.context + measured.answer / 2),  # as it is on average
        sequences=measured.requests,
        cost_model=fit.rate.terms if fit.rate else PUBLISHED,
    )
