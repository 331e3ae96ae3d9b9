package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"io"
	"slices"
	"time"
)

// entry is one file of an archive, or a directory, whose name ends with a slash.
type entry struct {
	name    string
	mode    int64
	content []byte
}

// pack writes a tar that depends on nothing but its arguments.
func pack(out io.Writer, at time.Time, entries []entry) error {
	entries = slices.SortedFunc(slices.Values(entries), func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	w := tar.NewWriter(out)
	for _, e := range entries {
		h := tar.Header{Name: e.name, Typeflag: tar.TypeReg, Mode: e.mode, Size: int64(len(e.content)), ModTime: at, Format: tar.FormatPAX}
		if e.name[len(e.name)-1] == '/' {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(&h); err != nil {
			return err
		}
		if _, err := w.Write(e.content); err != nil {
			return err
		}
	}
	return w.Close()
}

// packed is such a tar, compressed. The header of gzip has no time and no name.
func packed(at time.Time, entries []entry) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if err := pack(w, at, entries); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// unpacked are the entries of a compressed tar.
func unpacked(archive []byte) ([]entry, error) {
	r, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	var entries []entry
	for of := tar.NewReader(r); ; {
		h, err := of.Next()
		if err == io.EOF {
			return entries, nil
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(of)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{h.Name, h.Mode & 0o777, content})
	}
}
