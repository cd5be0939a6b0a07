# Writes an SBOM (SPDX 2.3, JSON). CMake fills in the names between at signs when it configures the build.
#   ROOT   the folder of the installation
#   FILES  paths in it, whose sums the SBOM holds; those that are not there are left out
#   OUT    the file to write
# usage: cmake -DROOT=.. -DFILES=..;.. -DOUT=.. -P sbom_write.cmake, or by include() with these variables set
set(libraries "@sbom_libraries@")
string(TIMESTAMP created "%Y-%m-%dT%H:%M:%SZ" UTC) # of $SOURCE_DATE_EPOCH, where that is set

# ---- the files: SPDX asks for SHA-1 beside SHA-256, and for a sum of all SHA-1 ----------------------------------
set(file_rows "")
set(sums "")
set(relations "")
set(n 0)
foreach(path IN LISTS FILES)
  if(NOT EXISTS "${ROOT}/${path}")
    continue()
  endif()
  file(SHA1 "${ROOT}/${path}" sha1)
  file(SHA256 "${ROOT}/${path}" sha256)
  list(APPEND sums ${sha1})
  math(EXPR n "${n} + 1")
  set(type BINARY)
  if(path MATCHES "\\.safetensors$")
    set(type OTHER)
  endif()
  list(APPEND file_rows "    {
      \"SPDXID\": \"SPDXRef-File-${n}\",
      \"fileName\": \"./${path}\",
      \"fileTypes\": [\"${type}\"],
      \"checksums\": [
        {\"algorithm\": \"SHA1\", \"checksumValue\": \"${sha1}\"},
        {\"algorithm\": \"SHA256\", \"checksumValue\": \"${sha256}\"}
      ],
      \"licenseConcluded\": \"Apache-2.0\",
      \"licenseInfoInFiles\": [\"NOASSERTION\"],
      \"copyrightText\": \"NOASSERTION\"
    }")
  list(APPEND relations "    {\"spdxElementId\": \"SPDXRef-clef\", \"relationshipType\": \"CONTAINS\", \"relatedSpdxElement\": \"SPDXRef-File-${n}\"}")
endforeach()
if(n EQUAL 0)
  message(FATAL_ERROR "sbom: expected one of ${FILES} in ${ROOT}, got none")
endif()
list(SORT sums)
list(JOIN sums "" sums)
string(SHA1 verification "${sums}")

# ---- the libraries -----------------------------------------------------------------------------------------
set(package_rows "    {
      \"SPDXID\": \"SPDXRef-clef\",
      \"name\": \"clef\",
      \"versionInfo\": \"@PROJECT_VERSION@\",
      \"downloadLocation\": \"NOASSERTION\",
      \"filesAnalyzed\": true,
      \"packageVerificationCode\": {\"packageVerificationCodeValue\": \"${verification}\"},
      \"licenseConcluded\": \"Apache-2.0\",
      \"licenseDeclared\": \"Apache-2.0\",
      \"licenseInfoFromFiles\": [\"NOASSERTION\"],
      \"copyrightText\": \"NOASSERTION\"
    }")
foreach(library IN LISTS libraries)
  string(REPLACE "|" ";" fields "${library}")
  list(GET fields 0 name)
  list(GET fields 1 version)
  list(GET fields 2 licence)
  list(APPEND package_rows "    {
      \"SPDXID\": \"SPDXRef-${name}\",
      \"name\": \"${name}\",
      \"versionInfo\": \"${version}\",
      \"downloadLocation\": \"NOASSERTION\",
      \"filesAnalyzed\": false,
      \"licenseConcluded\": \"NOASSERTION\",
      \"licenseDeclared\": \"${licence}\",
      \"copyrightText\": \"NOASSERTION\"
    }")
  list(APPEND relations "    {\"spdxElementId\": \"SPDXRef-clef\", \"relationshipType\": \"DEPENDS_ON\", \"relatedSpdxElement\": \"SPDXRef-${name}\"}")
endforeach()

list(JOIN package_rows ",\n" package_rows)
list(JOIN file_rows ",\n" file_rows)
list(JOIN relations ",\n" relations)
string(SHA256 identity "${package_rows}${file_rows}")
file(WRITE "${OUT}" "{
  \"spdxVersion\": \"SPDX-2.3\",
  \"dataLicense\": \"CC0-1.0\",
  \"SPDXID\": \"SPDXRef-DOCUMENT\",
  \"name\": \"clef-@PROJECT_VERSION@\",
  \"documentNamespace\": \"https://spdx.org/spdxdocs/clef-@PROJECT_VERSION@-${identity}\",
  \"creationInfo\": {
    \"created\": \"${created}\",
    \"creators\": [\"Tool: clef-cmake-@PROJECT_VERSION@\"]
  },
  \"documentDescribes\": [\"SPDXRef-clef\"],
  \"packages\": [
${package_rows}
  ],
  \"files\": [
${file_rows}
  ],
  \"relationships\": [
${relations}
  ]
}
")
