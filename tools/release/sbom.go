package main

import (
	"bytes"
	"cmp"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// module is one module of a program.
type module struct{ Path, Version string }

// writeSBOM writes what a program is built from as NAME.spdx.json, and compares it with what Go says of the program. The
// digest is that of the image or archive that has the program.
func (r Release) writeSBOM(ctx context.Context, name, binary, digest string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.Write(r.sbom(name, digest, info), &out, json.Indent(" ")); err != nil {
		return err
	}
	listed, err := modulesOf(out.Bytes())
	if err != nil {
		return err
	}
	linked, err := goVersionModules(ctx, binary)
	if err != nil {
		return err
	}
	if !slices.Equal(listed, linked) {
		return fmt.Errorf("the SBOM of %s has modules %v, but the program %v", name, listed, linked)
	}
	return os.WriteFile(filepath.Join(r.Out, name+".spdx.json"), append(out.Bytes(), '\n'), 0o644)
}

const unknown = "NOASSERTION"

// sbom describes one image or archive, which has one program. Its modules are what the program depends on.
func (r Release) sbom(name, digest string, info *debug.BuildInfo) *v2_3.Document {
	document := &v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName: name + "_" + r.Version, DocumentNamespace: r.downloads() + "/" + name + "-" + digest,
		CreationInfo: &v2_3.CreationInfo{Created: r.Time.Format("2006-01-02T15:04:05Z"), Creators: []common.Creator{{CreatorType: "Tool", Creator: "attune-release"}}},
	}
	add := func(id common.ElementID, p v2_3.Package, from common.ElementID, relation string) {
		p.PackageSPDXIdentifier, p.PackageLicenseConcluded, p.PackageLicenseDeclared, p.PackageCopyrightText = id, cmp.Or(p.PackageLicenseConcluded, unknown), cmp.Or(p.PackageLicenseDeclared, unknown), unknown
		p.PackageDownloadLocation = cmp.Or(p.PackageDownloadLocation, unknown)
		document.Packages = append(document.Packages, &p)
		document.Relationships = append(document.Relationships, &v2_3.Relationship{
			RefA: common.DocElementID{ElementRefID: from}, RefB: common.DocElementID{ElementRefID: id}, Relationship: relation,
		})
	}
	add("Artifact", v2_3.Package{
		PackageName: name, PackageVersion: r.Version, PrimaryPackagePurpose: "ARCHIVE",
		PackageChecksums: []common.Checksum{{Algorithm: common.SHA256, Value: digest}},
	}, "DOCUMENT", common.TypeRelationshipDescribe)
	add("Program", v2_3.Package{
		PackageName: info.Path, PackageVersion: r.Version, PrimaryPackagePurpose: "APPLICATION",
		PackageDownloadLocation: "git+" + r.URL + "@" + r.Commit, PackageLicenseConcluded: "Apache-2.0", PackageLicenseDeclared: "Apache-2.0",
	}, "Artifact", common.TypeRelationshipContains)
	for i, m := range modulesIn(info) {
		add(common.ElementID(fmt.Sprintf("Module-%d", i)), v2_3.Package{
			PackageName: m.Path, PackageVersion: m.Version, PrimaryPackagePurpose: "LIBRARY",
			PackageExternalReferences: []*v2_3.PackageExternalReference{{Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: "pkg:golang/" + m.Path + "@" + m.Version}},
		}, "Program", common.TypeRelationshipDependsOn)
	}
	return document
}

// standard is the name of Go's standard library in package URLs.
const standard = "stdlib"

func modulesIn(info *debug.BuildInfo) []module {
	modules := []module{{standard, strings.TrimPrefix(info.GoVersion, "go")}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		modules = append(modules, module{m.Path, m.Version})
	}
	return sorted(modules)
}

// modulesOf an SBOM are those that its program depends on.
func modulesOf(sbom []byte) ([]module, error) {
	document, err := json.Read(bytes.NewReader(sbom))
	if err != nil {
		return nil, err
	}
	packages := map[common.ElementID]*v2_3.Package{}
	for _, p := range document.Packages {
		packages[p.PackageSPDXIdentifier] = p
	}
	var modules []module
	for _, relation := range document.Relationships {
		if relation.Relationship == common.TypeRelationshipDependsOn {
			p := packages[relation.RefB.ElementRefID]
			if p == nil {
				return nil, fmt.Errorf("SBOM %s has no package %s", document.DocumentName, relation.RefB.ElementRefID)
			}
			modules = append(modules, module{p.PackageName, p.PackageVersion})
		}
	}
	return sorted(modules), nil
}

// goVersionModules are those that go version -m prints.
func goVersionModules(ctx context.Context, binary string) ([]module, error) {
	text, err := output(ctx, "", nil, "go", "version", "-m", binary)
	if err != nil {
		return nil, err
	}
	first, rest, _ := strings.Cut(text, "\n")
	modules := []module{{standard, strings.TrimPrefix(first[strings.LastIndex(first, ": ")+2:], "go")}}
	for line := range strings.Lines(rest) {
		fields := strings.Fields(line)
		switch {
		case len(fields) >= 3 && fields[0] == "dep":
			modules = append(modules, module{fields[1], fields[2]})
		case len(fields) >= 3 && fields[0] == "=>": // replaces the module of the line before
			modules[len(modules)-1] = module{fields[1], fields[2]}
		}
	}
	return sorted(modules), nil
}

func sorted(modules []module) []module {
	return slices.SortedFunc(slices.Values(modules), func(a, b module) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Version, b.Version))
	})
}
