; Not built here: nobody has tried this definition yet. For Inno Setup 6 on a Windows machine, after
;   pyinstaller packaging\evprof.spec
;   iscc /DVersion=0.2.0 packaging\installer\windows.iss
; Installs for one user without administrator's rights, or for all with them.
#ifndef Version
  #error Give the version: iscc /DVersion=X.Y.Z
#endif

[Setup]
AppId={{6E0B7C52-6E3B-4B0B-9C5E-2D6C0F3C7A11}
AppName=evprof
AppVersion={#Version}
AppPublisher=evprof maintainers
DefaultDirName={autopf}\evprof
DefaultGroupName=evprof
DisableProgramGroupPage=yes
PrivilegesRequired=lowest
PrivilegesRequiredOverridesAllowed=dialog commandline
ArchitecturesAllowed=x64compatible
ArchitecturesInstallIn64BitMode=x64compatible
ChangesAssociations=yes
ChangesEnvironment=yes
CloseApplications=yes
Compression=lzma2/max
SolidCompression=yes
LicenseFile=..\..\LICENSE
OutputDir=..\..\dist
OutputBaseFilename=evprof-{#Version}-windows-x86_64
UninstallDisplayIcon={app}\evprof-window.exe

[InstallDelete]
; An upgrade leaves no file of the older version; sessions and settings lie elsewhere.
Type: filesandordirs; Name: "{app}\_internal"

[Files]
Source: "..\..\dist\evprof\*"; DestDir: "{app}"; Flags: recursesubdirs ignoreversion

[Icons]
Name: "{group}\evprof"; Filename: "{app}\evprof-window.exe"; Parameters: "gui"

[Registry]
Root: HKA; Subkey: "Software\Classes\.evprof"; ValueType: string; ValueData: "evprof.session"; Flags: uninsdeletevalue
Root: HKA; Subkey: "Software\Classes\evprof.session"; ValueType: string; ValueData: "evprof session"; Flags: uninsdeletekey
Root: HKA; Subkey: "Software\Classes\evprof.session\shell\open\command"; ValueType: string; ValueData: """{app}\evprof-window.exe"" gui ""%1"""

[Run]
Filename: "{app}\evprof-window.exe"; Parameters: "gui"; Description: "Open evprof"; Flags: postinstall nowait skipifsilent unchecked
