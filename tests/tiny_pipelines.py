"""The pipelines of diffusers with random weights of a few kilobytes, saved like real ones."""

import json
import shutil

import torch
from diffusers import (
    AutoencoderKLCogVideoX,
    AutoencoderKLWan,
    CogVideoXDDIMScheduler,
    CogVideoXPipeline,
    CogVideoXTransformer3DModel,
    UniPCMultistepScheduler,
    WanPipeline,
    WanTransformer3DModel,
)
from peft import LoraConfig
from peft.utils import get_peft_model_state_dict
from sentencepiece import SentencePieceTrainer
from transformers import (
    T5Config,
    T5EncoderModel,
    T5Tokenizer,
    UMT5Config,
    UMT5EncoderModel,
    logging,
)

from newtongs.paper.datasets.common12 import MOTIONS

CHANNELS = 4  # of CogVideoX's latent pictures
LETTERS = "▁abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,-"

logging.disable_progress_bar()


def tokenizer():
    """Letter by letter; nothing is fetched."""
    special = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    return T5Tokenizer(vocab=special + [(letter, -3.0) for letter in LETTERS])


def text_encoder(config, model, size):
    return model(
        config(vocab_size=size, d_model=32, d_kv=8, d_ff=37, num_layers=1, num_heads=2)
    ).eval()


def stored_tokenizer(folder):
    """As CogVideoX's repository has it: a sentencepiece model, no tokenizer.json."""
    folder.mkdir(parents=True)
    SentencePieceTrainer.train(
        sentence_iterator=(motion.prompt for motion in MOTIONS.values()),
        model_prefix=str(folder / "spiece"),
        vocab_size=300,
        hard_vocab_limit=False,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        minloglevel=2,
    )
    (folder / "spiece.vocab").unlink()
    config = {"tokenizer_class": "T5Tokenizer", "extra_ids": 100, "model_max_length": 226}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return T5Tokenizer.from_pretrained(folder)


def save_cogvideox(folder):
    torch.manual_seed(0)
    words = stored_tokenizer(folder.parent / "tokenizer")
    pipe = CogVideoXPipeline(
        tokenizer=words,
        text_encoder=text_encoder(T5Config, T5EncoderModel, len(words)),
        vae=AutoencoderKLCogVideoX(
            down_block_types=("CogVideoXDownBlock3D",) * 4,
            up_block_types=("CogVideoXUpBlock3D",) * 4,
            block_out_channels=(8, 8, 8, 8),
            latent_channels=CHANNELS,
            layers_per_block=1,
            norm_num_groups=2,
            temporal_compression_ratio=4,
        ),
        transformer=CogVideoXTransformer3DModel(
            num_attention_heads=2,
            attention_head_dim=16,
            in_channels=CHANNELS,
            out_channels=CHANNELS,
            time_embed_dim=2,
            text_embed_dim=32,
            num_layers=1,
            sample_width=2,
            sample_height=2,
            sample_frames=9,
        ),
        scheduler=CogVideoXDDIMScheduler(),
    )
    pipe.save_pretrained(folder)
    shutil.rmtree(folder / "tokenizer")
    shutil.move(folder.parent / "tokenizer", folder / "tokenizer")
    return folder


def save_lora(folder, weights):
    """A LoRA with random weights for the pipeline in ``weights``."""
    torch.manual_seed(1)
    pipe = CogVideoXPipeline.from_pretrained(weights)
    layers = ["to_q", "to_k", "to_v", "to_out.0"]
    pipe.transformer.add_adapter(
        LoraConfig(r=4, lora_alpha=4, target_modules=layers, init_lora_weights=False)
    )
    state = {k: 5 * x for k, x in get_peft_model_state_dict(pipe.transformer).items()}
    CogVideoXPipeline.save_lora_weights(folder, transformer_lora_layers=state)
    return folder / "pytorch_lora_weights.safetensors"


def save_wan(folder):
    torch.manual_seed(0)
    words = tokenizer()
    pipe = WanPipeline(
        tokenizer=words,
        text_encoder=text_encoder(UMT5Config, UMT5EncoderModel, len(words)),
        vae=AutoencoderKLWan(
            base_dim=3,
            z_dim=16,
            dim_mult=[1, 1, 1, 1],
            num_res_blocks=1,
            temperal_downsample=[False, True, True],
        ),
        transformer=WanTransformer3DModel(
            patch_size=(1, 2, 2),
            num_attention_heads=2,
            attention_head_dim=12,
            in_channels=16,
            out_channels=16,
            text_dim=32,
            freq_dim=256,
            ffn_dim=32,
            num_layers=1,
            cross_attn_norm=True,
            qk_norm="rms_norm_across_heads",
            rope_max_seq_len=32,
        ),
        scheduler=UniPCMultistepScheduler(
            prediction_type="flow_prediction",
            use_flow_sigmas=True,
            num_train_timesteps=1000,
            flow_shift=3.0,
        ),
    )
    pipe.save_pretrained(folder)
    return folder
