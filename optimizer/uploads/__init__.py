"""What an uploaded file is, told by name, size, first bytes and (zip) listing. Loads nothing, unpacks nothing.

A contract as spec and result are: by it the web process refuses what need not come in (it opens no upload further),
and the inspector what no child shall load. Standard library only; a refusal is a reason, whoever asks gives it its id.
"""
