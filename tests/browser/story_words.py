"""What the story's pages say in both languages, written by hand: a text that is missing or says something else fails.

`say = Words("zh-hans")`, then `say("Sign in")`. What stands in braces is filled in.
"""

from __future__ import annotations

from dataclasses import dataclass

CHINESE = {
    # the frame
    "Sign in": "登录",
    "Sign out": "退出登录",
    "E-mail address": "电子邮箱",
    "Password": "密码",
    "The e-mail address or the password is wrong.": "电子邮箱或密码错误。",
    "Dashboard": "概览",
    "Models": "模型",
    "Runs": "运行",
    "Catalog": "配方库",
    "Not found": "未找到",
    # the dashboard and the upload
    "Make your first model faster": "让您的第一个模型更快",
    "Upload a model": "上传模型",
    "Name of the new model": "新模型的名称",
    "File: drop it here, or choose it": "文件：拖放到此处，或选择文件",
    "Upload": "上传",
    "{done} of {total} sent": "已发送 {done} / {total}",
    "which Fuseworks does not read": "Fuseworks 不能读取",
    "TorchScript and pickles": "TorchScript 和 pickle",
    # a version and a model
    "What is in it": "内容",
    "Workload: how it is called": "工作负载：如何调用它",
    "Save as a new revision": "保存为新修订",
    "Make it faster": "加速它",
    "Optimize": "优化",
    "Choose one from the catalog": "从配方库中选择",
    "Edit name, kind and description": "编辑名称、类别和说明",
    "Kind of model": "模型类别",
    "search": "搜索",
    "ranking": "排序",
    "Save": "保存",
    "Saved.": "已保存。",
    # a run
    "optimize": "优化",
    "replay": "重放",
    "running": "运行中",
    "succeeded": "成功",
    "benchmarking": "基准测量",
    "First measurements": "初步测量",
    "Files": "文件",
    "Before and after": "优化前后",
    # before and after
    "{speedup} as fast as the original": "速度是原模型的 {speedup}",
    "Under equal settings": "相同设置下",
    "faster": "更快",
    "99 % interval": "99 % 区间",
    "Latency of single calls": "单次调用延迟",
    "Download the package": "下载部署包",
    "Save as recipe": "保存为配方",
    # recipes
    "Saved as a draft. Publish it to share it.": "已保存为草稿。发布后即可共享。",
    "draft": "草稿",
    "Publish to": "发布范围",
    "Company": "全公司",
    "Publish": "发布",
    "Published. Its document will never change.": "已发布。其文档不会再改变。",
    "published": "已发布",
    "Recipe catalog": "配方库",
    "Search": "搜索",
    "1 recipe": "1 个配方",
    "at least {gain} in the best of 1 faster outcomes, 1 in all": "在 1 次更快的结果中最佳至少 {gain}，共 1 次结果",
    "Evidence": "实测证据",
    "a model of another team ({family})": "另一团队的模型（{family}）",
    "Apply to my model": "应用到我的模型",
    "You have no model to apply it to": "您没有可应用的模型",
    "Model version": "模型版本",
    "Start the replay": "开始重放",
}
LANGUAGE_NAMES = {"en": "English", "zh-hans": "简体中文"}
OTHER_LANGUAGE = {"en": "zh-hans", "zh-hans": "en"}


@dataclass(frozen=True)
class Words:
    language: str

    def __call__(self, english: str, **values: str) -> str:
        chinese = CHINESE[english]  # what is not listed there fails in English too
        return (english if self.language == "en" else chinese).format(**values)
