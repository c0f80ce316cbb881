"""What is read out of a disassembly, counted by hand in a few lines of it."""

from __future__ import annotations

from kernels.aot.machine_code import amd_metadata, read_amd_assembly, read_sass

SASS = """
	.headerflags	@"EF_CUDA_SM90"
.text.kernel:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   S2R R0, SR_TID.X ;
        /*0020*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0030*/              @P0  LDG.E.128.CONSTANT R8, desc[UR4][R2.64+0x10] ;
        /*0040*/             @!P0  LDG.E R9, desc[UR4][R2.64] ;
        /*0050*/                   STL [R1+0x4], R9 ;
.L_x_1:
        /*0060*/                   LDG.E.64 R10, desc[UR4][R2.64] ;
        /*0070*/                   LDL R9, [R1+0x4] ;
        /*0080*/                   FFMA R4, R4, R5, R9 ;
        /*0090*/                   HGMMA.64x64x16.F32.BF16 R24, gdesc[UR8], R24 ;
        /*00a0*/                   MUFU.RSQ R7, R4 ;
        /*00b0*/              @!PT LDS RZ, [RZ] ;
        /*00c0*/                   STG.E.128 desc[UR4][R2.64], R4 ;
        /*00d0*/                   STG.E.U16 desc[UR4][R2.64], R4 ;
        /*00e0*/               @P1 BRA `(.L_x_1) ;
        /*00f0*/                   EXIT ;
"""


def test_it_counts_loads_and_stores_by_their_width():
    code = read_sass(SASS)
    assert code.loads == {32: 1, 64: 1, 128: 2}
    assert code.stores == {16: 1, 128: 1}
    assert (code.vector_loads, code.vector_stores) == (2, 1)


def test_spills_are_loads_and_stores_of_local_memory():
    assert read_sass(SASS).spills == 2


def test_bytes_under_way_are_those_of_one_stretch_of_straight_code():
    # before the label 16 + 16 + 4 bytes, after it 8: the larger counts, not the sum
    assert read_sass(SASS).load_bytes == 36


def test_the_mix_adds_up_to_all_instructions():
    code = read_sass(SASS)
    assert code.instructions == 16
    assert sum(code.mix.values()) == 16
    assert code.mix["tensor_core"] == code.tensor_cores == 1
    assert code.mix["special_function"] == 1 and code.mix["float"] == 1 and code.mix["control"] == 2


def test_asynchronous_copies_are_loads_too():
    code = read_sass("        /*0000*/   LDGSTS.E.BYPASS.128 [R7], desc[UR4][R2.64] ;\n")
    assert code.loads == {128: 1} and code.async_copies == 1
    assert code.load_bytes == 0  # they land in shared memory


AMD = """
kernel:
	s_load_dwordx4 s[0:3], s[0:1], 0x0
	global_load_dwordx4 v[0:3], v0, s[0:1]
	global_load_dword v4, v0, s[0:1]
	v_mfma_f32_32x32x8_bf16_1k a[0:15], v[0:1], v[2:3], a[0:15]
	scratch_store_dword off, v4, s32
	ds_read_b128 v[8:11], v0
	global_store_dwordx2 v0, v[0:1], s[2:3]
	s_endpgm
    .private_segment_fixed_size: 8
    .sgpr_count:     24
    .sgpr_spill_count: 0
    .vgpr_count:     96
    .vgpr_spill_count: 3
"""


def test_it_reads_amds_assembly_and_its_note():
    code = read_amd_assembly(AMD)
    assert code.loads == {32: 1, 128: 1} and code.stores == {64: 1}
    assert code.tensor_cores == 1 and code.spills == 1 and code.load_bytes == 20
    assert amd_metadata(AMD) == {
        "vgpr_count": 96,
        "sgpr_count": 24,
        "vgpr_spill_count": 3,
        "sgpr_spill_count": 0,
        "private_segment_fixed_size": 8,
    }
