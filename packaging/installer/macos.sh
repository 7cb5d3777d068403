#!/bin/sh
# Not built here: nobody has tried this definition yet. On a Mac, after `make frozen`:
#   packaging/installer/macos.sh VERSION      makes dist/evprof-VERSION-macos.dmg
# The image holds evprof.app, the window, with the console program inside it (Contents/MacOS/evprof). It is not signed.
set -eu
cd "$(dirname "$0")/../.."
version=${1:?give the version}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
app=$work/image/evprof.app
mkdir -p "$app/Contents/Resources"
cp -R dist/evprof "$app/Contents/MacOS"
cp LICENSE "$app/Contents/Resources/LICENSE"
cat >"$app/Contents/Info.plist" <<PLIST
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0"><dict>
  <key>CFBundleName</key><string>evprof</string>
  <key>CFBundleIdentifier</key><string>evprof</string>
  <key>CFBundleExecutable</key><string>evprof-window</string>
  <key>CFBundlePackageType</key><string>APPL</string>
  <key>CFBundleShortVersionString</key><string>$version</string>
  <key>NSHighResolutionCapable</key><true/>
  <key>UTExportedTypeDeclarations</key><array><dict>
    <key>UTTypeIdentifier</key><string>evprof.session</string>
    <key>UTTypeConformsTo</key><array><string>public.data</string></array>
    <key>UTTypeTagSpecification</key><dict><key>public.filename-extension</key><array><string>evprof</string></array></dict>
  </dict></array>
  <key>CFBundleDocumentTypes</key><array><dict>
    <key>CFBundleTypeName</key><string>evprof session</string>
    <key>CFBundleTypeRole</key><string>Viewer</string>
    <key>LSItemContentTypes</key><array><string>evprof.session</string></array>
  </dict></array>
</dict></plist>
PLIST
ln -s /Applications "$work/image/Applications"
hdiutil create -volname "evprof $version" -srcfolder "$work/image" -format ULMO -ov "dist/evprof-$version-macos.dmg"
