"""Where the time of an update goes: from the text of a program and events by hand, and from a real trace."""

import jax
import jax.numpy as jnp
import pytest

from perepisode.study import profile

# shortened XLA output: a loop that acts, a fusion of the backward pass, copies that the compiler added
PROGRAM = """
HloModule jit_run_chunk, is_scheduled=true, entry_computation_layout={(f32[4]{0})->f32[4]{0}}

%fused_computation.1 (param_0.1: f32[4]) -> f32[4] {
  %param_0.1 = f32[4]{0} parameter(0)
  ROOT %mul.3 = f32[4]{0} multiply(%param_0.1, %param_0.1), metadata={op_name="jit(run_chunk)/acting/while/body/mul"}
}

%region_0.2 (arg_tuple.1: (s32[], f32[4])) -> (s32[], f32[4]) {
  %arg_tuple.1 = (s32[], /*index=1*/f32[4]{0}) parameter(0)
  %loop_multiply_fusion.1 = f32[4]{0} fusion(%gte), kind=kLoop, calls=%fused_computation.1, metadata={op_name="jit(run_chunk)/acting/while/body/products/mul" stack_frame_id=10}
  %copy.6 = f32[4]{0} copy(%loop_multiply_fusion.1)
  ROOT %tuple.4 = (s32[], f32[4]{0}) tuple(%gte.1, %copy.6)
}

ENTRY %main.9 (Arg_0.1: f32[4]) -> f32[4] {
  %Arg_0.1 = f32[4]{0} parameter(0), metadata={op_name="state"}
  %while.5 = (s32[], f32[4]{0}) while(%tuple.2), condition=%region_1, body=%region_0.2, metadata={op_name="jit(run_chunk)/acting/while"}
  %custom-call.7 = f32[4]{0} custom-call(%gte.5), custom_call_target="__cublas$gemm", metadata={op_name="jit(run_chunk)/vmap(while)/body/transpose(jvp(products))/dot_general"}
  %gru_forward = f32[4]{0} custom-call(%custom-call.7), metadata={op_name="jit(run_chunk)/while/body/jvp(recurrence)/pallas_call"}
  %fusion.8 = f32[4]{0} fusion(%gru_forward), kind=kLoop, calls=%fused_computation.2, metadata={op_name="jit(run_chunk)/while/body/optimizer/sub"}
  %copy.9 = f32[4]{0} copy(%fusion.8)
  ROOT %add.2 = f32[4]{0} add(%copy.9, %copy.9), metadata={op_name="jit(run_chunk)/while/body/jvp()/add"}
}
"""  # noqa: E501


def test_every_operation_of_a_program_has_its_part():
    known = profile.parts(PROGRAM)
    assert known["loop_multiply_fusion.1"] == "acting"  # although it contains a product
    assert known["copy.6"] == "acting"  # its loop has no other part
    assert known["while.5"] is None
    assert known["custom-call.7"] == "products"
    assert known["gru_forward"] == "recurrence"
    assert known["fusion.8"] == "optimizer"
    assert known["copy.9"] == known["add.2"] == "rest"


def test_shares_of_the_time():
    """By hand: 100 ns in total; the loop around the acting is not counted again."""
    events = [("while.5", 50.0), ("loop_multiply_fusion_1", 30.0), ("copy.6", 10.0), ("custom-call.7", 25.0)]
    events += [("gru_forward", 20.0), ("fusion.8", 5.0), ("fusion.8", 4.0), ("MemcpyD2D", 6.0)]
    found = profile.shares(events, profile.parts(PROGRAM))
    assert found == pytest.approx({"acting": 0.4, "recurrence": 0.2, "products": 0.25, "optimizer": 0.09, "rest": 0.06})
    assert profile.text(found) == "acting 40 %, recurrence 20 %, products 25 %, optimizer 9 %, rest 6 %"
    assert "no operation" in profile.text(profile.shares([], {}))


def test_a_real_trace_names_the_operations_of_its_program():
    @jax.jit
    def program(x):
        with jax.named_scope("acting"):
            x = jax.lax.fori_loop(0, x.shape[0], lambda i, c: jnp.sort(jnp.sin(c) @ c, axis=0), x)
        with jax.named_scope("optimizer"):
            return jnp.cos(x).sum()

    x = jnp.ones((64, 64))
    known = profile.parts(program.lower(x).compile().as_text())
    program(x)
    events = profile.traced(lambda: program(x))
    assert {name for name, _ in events} <= set(known)
    found = profile.shares(events, known)
    assert found["acting"] > 0.5  # sixty-four sorted products against one sum
    assert found["optimizer"] > 0
    assert found["recurrence"] == found["products"] == 0
