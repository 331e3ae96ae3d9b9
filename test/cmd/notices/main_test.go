package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const project = "../../.."

// platforms are those of the Makefile's archives.
func platforms(t *testing.T) []string {
	t.Helper()
	makefile, err := os.ReadFile(filepath.Join(project, "Makefile"))
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^PLATFORMS := (.+)$`).FindSubmatch(makefile)
	require.NotNil(t, found)
	return strings.Fields(string(found[1]))
}

// The notices are those of the modules that are linked now, on all platforms.
func TestNoticesAreCurrent(t *testing.T) {
	os.Getenv("ATTUNE_INPUTS") // the digest of what is read outside of this module, so that Go's test cache sees a change
	var now bytes.Buffer
	require.NoError(t, run(&now, append([]string{project}, platforms(t)...)))
	written, err := os.ReadFile(filepath.Join(project, "THIRD_PARTY_NOTICES"))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(written, now.Bytes()), "THIRD_PARTY_NOTICES is out of date: run make generate")
	for _, module := range []string{"\nGo\n", "\nk8s.io/api v", "\ngithub.com/prometheus/prometheus v", "\ngithub.com/inconshreveable/mousetrap v"} {
		assert.Contains(t, now.String(), module)
	}
	for _, text := range []string{"Apache License", "Redistribution and use in source and binary forms", "Permission is hereby granted"} {
		assert.Contains(t, now.String(), text)
	}
}

func TestLicensesOfAPackage(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"LICENSE.txt": "outer", "NOTICE": "notice", "licenses.go": "code", "license.go": "code", "forked/COPYING": "inner", "forked/x/x.go": "code", "other/LICENSE": "not on the way",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	found, err := licensesIn(root, filepath.Join(root, "forked", "x"))
	require.NoError(t, err)
	for i := range found {
		found[i], err = filepath.Rel(root, found[i])
		require.NoError(t, err)
	}
	assert.Equal(t, []string{"forked/COPYING", "LICENSE.txt", "NOTICE"}, found)
}

// Equal texts are written once, whatever their spaces, in an order that does not depend on maps.
func TestEqualTextsAreWrittenOnce(t *testing.T) {
	dir := t.TempDir()
	files := map[string][]string{}
	for module, text := range map[string]string{"b v1": "same \r\ntext\n\n", "a v1": "\nsame\ntext", "c v1": "another"} {
		file := filepath.Join(dir, module)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		files[module] = []string{file}
	}
	texts, err := textsOf(files)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, write(&out, texts))
	line := strings.Repeat("=", 80)
	assert.Equal(t, head+"\n"+line+"\na v1\nb v1\n"+line+"\n\nsame\ntext\n\n"+line+"\nc v1\n"+line+"\n\nanother\n", out.String())
}

func TestAModuleWithoutALicense(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "cmd", "a"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "bare"), 0o755))
	for name, text := range map[string]string{
		"go.mod": "module a.example/a\n\ngo 1.26\n\nrequire b.example/bare v1.0.0\n\nreplace b.example/bare => ./bare\n", "cmd/a/main.go": "package main\n\nimport _ \"b.example/bare\"\n\nfunc main() {}\n",
		"bare/go.mod": "module b.example/bare\n\ngo 1.26\n", "bare/bare.go": "package bare\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	assert.ErrorContains(t, run(&bytes.Buffer{}, []string{dir, "linux/amd64"}), "b.example/bare v1.0.0 has no license file")
	assert.ErrorContains(t, run(&bytes.Buffer{}, nil), "usage")
}
