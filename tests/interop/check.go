// Checks a log by Go's own checksum-database packages: the checkpoint's note, every record's inclusion
// proof, every older tree's consistency proof, and the root hash that the tiles lead to. With a folder and a
// verifier key, checks a mirror: every entry is the record that the tiles under the checkpoint prove.
package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type log struct {
	Key         string
	Note        string
	Bodies      [][]byte
	Inclusion   [][][]byte
	Roots       [][]byte
	Consistency [][][]byte
	Tiles       map[string][]byte
}

func main() {
	if len(os.Args) == 3 {
		checkMirror(os.Args[1], os.Args[2])
		return
	}
	var l log
	must(json.NewDecoder(os.Stdin).Decode(&l))
	verifier, err := note.NewVerifier(l.Key)
	must(err)
	opened, err := note.Open([]byte(l.Note), note.VerifierList(verifier))
	must(err)
	lines := strings.Split(opened.Text, "\n")
	root, err := tlog.ParseHash(lines[2])
	must(err)
	size := int64(len(l.Bodies))
	if lines[1] != fmt.Sprint(size) {
		must(fmt.Errorf("size %s, records %d", lines[1], size))
	}
	for index, body := range l.Bodies {
		must(tlog.CheckRecord(hashes(l.Inclusion[index]), size, root, int64(index), tlog.RecordHash(body)))
	}
	for place, older := range l.Roots {
		must(tlog.CheckTree(hashes(l.Consistency[place]), size, root, int64(place+1), hash(older)))
	}
	fromTiles, err := tlog.TreeHash(size, tlog.TileHashReader(tlog.Tree{N: size, Hash: root}, tiles(l.Tiles)))
	must(err)
	if fromTiles != root {
		must(fmt.Errorf("the tiles lead to another root hash"))
	}
	fmt.Println("ok", size)
}

func checkMirror(folder, key string) {
	verifier, err := note.NewVerifier(key)
	must(err)
	raw, err := os.ReadFile(filepath.Join(folder, "checkpoint"))
	must(err)
	opened, err := note.Open(raw, note.VerifierList(verifier))
	must(err)
	lines := strings.Split(opened.Text, "\n")
	root, err := tlog.ParseHash(lines[2])
	must(err)
	size, err := strconv.ParseInt(lines[1], 10, 64)
	must(err)
	reader := tlog.TileHashReader(tlog.Tree{N: size, Hash: root}, mirror(folder))
	for start := int64(0); start < size; start += 256 {
		width := size - start
		if width > 256 {
			width = 256
		}
		entries, err := mirror(folder).entries(start/256, int(width))
		must(err)
		for place, entry := range entries {
			index := start + int64(place)
			proof, err := tlog.ProveRecord(size, index, reader)
			must(err)
			must(tlog.CheckRecord(proof, size, root, index, tlog.RecordHash(entry)))
		}
	}
	fmt.Println("ok", size)
}

// A mirror's folder. Go names tiles with their height and data tiles otherwise than tlog-tiles does.
type mirror string

func (m mirror) Height() int { return 8 }

func (m mirror) ReadTiles(wanted []tlog.Tile) ([][]byte, error) {
	var data [][]byte
	for _, tile := range wanted {
		path := strings.Replace(tile.Path(), "tile/8/", "tile/", 1)
		found, err := os.ReadFile(filepath.Join(string(m), path))
		if err != nil {
			return nil, err
		}
		data = append(data, found)
	}
	return data, nil
}

func (m mirror) SaveTiles([]tlog.Tile, [][]byte) {}

func (m mirror) entries(number int64, width int) ([][]byte, error) {
	tile := tlog.Tile{H: 8, L: -1, N: number, W: width}
	path := strings.Replace(tile.Path(), "tile/8/data/", "tile/entries/", 1)
	data, err := os.ReadFile(filepath.Join(string(m), path))
	if err != nil {
		return nil, err
	}
	var entries [][]byte
	for len(data) >= 2 {
		end := 2 + int(binary.BigEndian.Uint16(data))
		if end > len(data) {
			return nil, fmt.Errorf("%s is cut off", path)
		}
		entries, data = append(entries, data[2:end]), data[end:]
	}
	if len(entries) != width || len(data) != 0 {
		return nil, fmt.Errorf("%s has %d entries", path, len(entries))
	}
	return entries, nil
}

type tiles map[string][]byte

func (t tiles) Height() int { return 8 }

func (t tiles) ReadTiles(wanted []tlog.Tile) ([][]byte, error) {
	var data [][]byte
	for _, tile := range wanted {
		found, ok := t[fmt.Sprintf("%d/%d", tile.L, tile.N)]
		if !ok || len(found) < tile.W*32 {
			return nil, fmt.Errorf("no tile %d/%d of width %d", tile.L, tile.N, tile.W)
		}
		data = append(data, found[:tile.W*32])
	}
	return data, nil
}

func (t tiles) SaveTiles([]tlog.Tile, [][]byte) {}

func hash(raw []byte) (h tlog.Hash) {
	copy(h[:], raw)
	return
}

func hashes(raw [][]byte) []tlog.Hash {
	var found []tlog.Hash
	for _, each := range raw {
		found = append(found, hash(each))
	}
	return found
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
